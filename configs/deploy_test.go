package configs_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"llmgw/internal/config"
)

// manifest is the part of a Kubernetes object that must fit the others.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ServiceName string `yaml:"serviceName"`
		Selector    any
		Ports       []struct {
			TargetPort string `yaml:"targetPort"`
		}
		ScaleTargetRef struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Template       struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type pod struct {
	ServiceAccountName            string `yaml:"serviceAccountName"`
	TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []struct {
		Args    []string
		EnvFrom []struct {
			SecretRef struct{ Name string } `yaml:"secretRef"`
		} `yaml:"envFrom"`
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		Liveness        probe `yaml:"livenessProbe"`
		Readiness       probe `yaml:"readinessProbe"`
		SecurityContext struct {
			AllowPrivilegeEscalation *bool                   `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool                    `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string } `yaml:"capabilities"`
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests are the objects of deploy/kubernetes by kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "deploy", "kubernetes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	all := make(map[string]manifest)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(raw)); ; {
			var m manifest
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			at := m.Kind + "/" + m.Metadata.Name
			if _, twice := all[at]; twice {
				t.Errorf("%s stands twice", at)
			}
			all[at] = m
		}
	}
	return all
}

func TestManifestsFitEachOther(t *testing.T) {
	all := manifests(t)
	set, ok := all["StatefulSet/llmgw"]
	if !ok || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("there is no set of gateways: %v", slices.Sorted(maps.Keys(all)))
	}
	p, labels := set.Spec.Template.Spec, set.Spec.Template.Metadata.Labels
	gateway := p.Containers[0]
	ports := map[string]int{}
	for _, port := range gateway.Ports {
		ports[port.Name] = port.ContainerPort
	}
	for at, m := range all {
		if m.Spec.Selector != nil && !selects(m.Spec.Selector, labels) {
			t.Errorf("%s does not select the gateways", at)
		}
		for _, port := range m.Spec.Ports {
			if ports[port.TargetPort] == 0 {
				t.Errorf("%s leads to the port %s, which no gateway has", at, port.TargetPort)
			}
		}
		if to := m.Spec.ScaleTargetRef; to.Name != "" {
			if _, ok := all[to.Kind+"/"+to.Name]; !ok {
				t.Errorf("%s scales %s/%s, which does not exist", at, to.Kind, to.Name)
			}
		}
	}
	mounted := []string{}
	for _, v := range p.Volumes {
		if _, ok := all["ConfigMap/"+v.ConfigMap.Name]; !ok {
			t.Errorf("the volume %s is of no ConfigMap", v.Name)
		}
		mounted = append(mounted, v.Name)
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		mounted = append(mounted, v.Metadata.Name)
	}
	for _, m := range gateway.VolumeMounts {
		if !slices.Contains(mounted, m.Name) {
			t.Errorf("%s is mounted and does not exist", m.Name)
		}
	}
	for _, at := range []string{"Service/" + set.Spec.ServiceName, "ServiceAccount/" + p.ServiceAccountName, "PodDisruptionBudget/llmgw"} {
		if _, ok := all[at]; !ok {
			t.Errorf("there is no %s", at)
		}
	}
	if gateway.Liveness.HTTPGet.Path != "/healthz" || gateway.Readiness.HTTPGet.Path != "/readyz" || gateway.Readiness.HTTPGet.Port != "http" {
		t.Errorf("the probes are %v and %v", gateway.Liveness, gateway.Readiness)
	}
}

// selects reports whether a selector, of a service or with matchLabels, has labels.
func selects(selector any, labels map[string]string) bool {
	want, _ := selector.(map[string]any)
	if match, ok := want["matchLabels"].(map[string]any); ok {
		want = match
	}
	for name, value := range want {
		if labels[name] != value {
			return false
		}
	}
	return len(want) > 0
}

func TestManifestsGrantNoRights(t *testing.T) {
	p := manifests(t)["StatefulSet/llmgw"].Spec.Template.Spec
	c := p.Containers[0].SecurityContext
	if !p.SecurityContext.RunAsNonRoot || !c.ReadOnlyRootFilesystem || !slices.Contains(c.Capabilities.Drop, "ALL") ||
		c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		t.Errorf("got %+v and %+v", p.SecurityContext, c)
	}
}

func TestManifestsConfigurationLoadsAndItsStateIsMounted(t *testing.T) {
	all := manifests(t)
	p := all["StatefulSet/llmgw"].Spec.Template.Spec
	secret := map[string]string{
		"LLMGW_ADMIN_TOKEN": "a-token-of-an-admin", "OPENAI_API_KEY": "sk-1", "DATABASE_URL": "postgres://llmgw@postgres/llmgw",
		"SEARCH_KEY_SHA256": strings.Repeat("1f0c2a90", 8),
	}
	env := func(name string) (string, bool) { v, ok := secret[name]; return v, ok }
	c, err := config.Parse("llmgw.yaml", []byte(all["ConfigMap/llmgw"].Data["llmgw.yaml"]), config.Lookups{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	stop := c.Server.DrainDelay + c.Server.ShutdownGrace
	if grace := time.Duration(p.TerminationGracePeriodSeconds) * time.Second; grace <= stop {
		t.Errorf("a pod is killed after %v and stops in up to %v", grace, stop)
	}
	if !slices.ContainsFunc(p.Containers[0].VolumeMounts, func(m struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	},
	) bool {
		return strings.HasPrefix(c.Records.Spool.Path, m.MountPath+"/")
	}) {
		t.Errorf("the spool %s is on no volume, and the root is read-only", c.Records.Spool.Path)
	}
	deploy, err := os.ReadFile(filepath.Join("..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range secret {
		if !bytes.Contains(deploy, []byte(name+"=")) {
			t.Errorf("docs/deploy.md does not set %s", name)
		}
	}
}

// systemd's own check of the unit, with programs that exist here in place of the
// gateway's: it wants them to be there.
func TestTheUnitIsOneThatSystemdTakes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "deploy", "systemd", "llmgw.service"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "TimeoutStopSec=50s"} {
		if !strings.Contains(string(raw), "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here: only the lines above were compared")
	}
	unit := filepath.Join(t.TempDir(), "llmgw.service")
	text := strings.NewReplacer("/usr/local/bin/llmgw", "/bin/true", "Documentation=file:/usr/local/share/doc/llmgw/deploy.md\n", "").Replace(string(raw))
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("llmgw.service")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestTheImagesUserIsNobodyAndItsHealthCheckNeedsNoShell(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(string(raw), "FROM scratch")
	for _, want := range []string{"USER 65532:65532", `CMD ["/llmgw", "healthcheck"]`, "STOPSIGNAL SIGTERM"} {
		if !strings.Contains(last, want) {
			t.Errorf("the image lacks %s", want)
		}
	}
}
