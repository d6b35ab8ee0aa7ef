package budget

import "testing"

func TestASuffixLeavesTheTagAsItIs(t *testing.T) {
	id := Suffixed(Tagged("r1", "team/model/key"), "~local")
	if id != "r1~local|team/model/key" || Tag(id) != "team/model/key" || Suffixed("r1", "+2") != "r1+2" {
		t.Errorf("got %q with the tag %q, and %q", id, Tag(id), Suffixed("r1", "+2"))
	}
}
