package configs_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"llmgw/internal/config"
)

// compose is the part of docker-compose.yml that must fit the rest of the tree.
type compose struct {
	Services map[string]struct {
		Image     string
		Command   []string
		Ports     []string
		Volumes   []string
		Configs   []struct{ Source, Target string }
		DependsOn any `yaml:"depends_on"`
	}
	Configs map[string]struct{ Content string }
	Volumes map[string]any
}

func readCompose(t *testing.T) compose {
	t.Helper()
	raw, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeHasRedisPrometheusGrafanaAndTwoGateways(t *testing.T) {
	c := readCompose(t)
	for _, name := range []string{"gateway-1", "gateway-2", "provider", "redis", "prometheus", "grafana"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("there is no service %s", name)
		}
	}
	published := make(map[string]string)
	for name, s := range c.Services {
		for _, port := range s.Ports {
			at, ok := strings.CutPrefix(port, "127.0.0.1:")
			if !ok {
				t.Errorf("%s is published to everybody at %s", name, port)
			}
			host, _, _ := strings.Cut(at, ":")
			if other := published[host]; other != "" {
				t.Errorf("%s and %s want port %s", name, other, host)
			}
			published[host] = name
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				if _, err := os.Stat(source); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s mounts the volume %s, which is not declared", name, source)
			}
		}
		for _, used := range s.Configs {
			if c.Configs[used.Source].Content == "" {
				t.Errorf("%s uses the config %s, which is empty", name, used.Source)
			}
		}
	}
	if !slices.Contains(c.Services["redis"].Command, "noeviction") {
		t.Error("Redis may evict counters, and each would be a free refill")
	}
}

func TestComposesGatewaysLoadTheirConfiguration(t *testing.T) {
	c := readCompose(t)
	text := c.Configs["gateway"].Content
	if strings.Contains(text, "$") {
		t.Error("compose expands dollars itself")
	}
	got, err := config.Parse("llmgw.yaml", []byte(text), config.Lookups{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Store.Redis.Addrs) != 1 || got.Store.Redis.Addrs[0] != "redis:6379" {
		t.Errorf("Redis is at %v", got.Store.Redis.Addrs)
	}
	if want := sha256.Sum256([]byte("sk-llmgw-demo")); got.Teams[0].Keys[0].SHA256 != want {
		t.Error("the key that the file's head names does not fit")
	}
	if host := got.Providers[0].BaseURL; !strings.HasPrefix(host, "http://provider:8000") || !slices.Contains(c.Services["provider"].Command, ":8000") {
		t.Errorf("the provider is not at %s", host)
	}
}

func TestPrometheusScrapesBothGateways(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("prometheus", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	c := readCompose(t)
	for _, name := range []string{"gateway-1", "gateway-2"} {
		if _, ok := c.Services[name]; !ok || !strings.Contains(string(raw), name+":9090") {
			t.Errorf("%s is not scraped", name)
		}
	}
}
