package shared

import (
	"testing"

	"llmgw/internal/changes/changestest"
)

func TestListsGrowAtTheirEnd(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		changestest.Run(t, func(*testing.T) changestest.Log { return new(MemoryList) })
	})
	t.Run("redis", func(t *testing.T) {
		c := client(t)
		changestest.Run(t, func(t *testing.T) changestest.Log { return NewRedisList(c, "test", t.Name()) })
	})
}
