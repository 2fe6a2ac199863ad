// Package helm tests the chart: what Helm makes of its values, and whether Kubernetes and Outrider can read that.
package helm

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/outriderhq/outrider/config"
)

var update = flag.Bool("update", false, "write the golden files again; read the difference")

// The values that the tests render: testdata/NAME.values.yaml, with the result in testdata/NAME.golden.yaml.
var cases = []string{"minimal", "production", "existing-secret", "http-source", "replicas"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func valuesOf(t *testing.T, name string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValuesFile(filepath.Join("testdata", name+".values.yaml"))
	must(t, err)
	return values
}

// render returns the files that Helm makes, by name, as of release shop in namespace prod.
func render(values map[string]any) (map[string]string, error) {
	chart, err := loader.LoadDir("outrider")
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "prod", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities) // checks the schema, too
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		if strings.TrimSpace(text) != "" && path.Base(name) != "_helpers.tpl" {
			out[path.Base(name)] = text
		}
	}
	return out, nil
}

func rendered(t *testing.T, name string) map[string]string {
	t.Helper()
	files, err := render(valuesOf(t, name))
	must(t, err)
	return files
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := rendered(t, name)
			var text strings.Builder
			for _, file := range slices.Sorted(maps.Keys(files)) {
				if file != "prometheusrule.yaml" { // it has the alerts, which are a file of their own: see TestAlerts
					fmt.Fprintf(&text, "# %s\n%s\n", file, strings.TrimSpace(files[file]))
				}
			}
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				must(t, os.WriteFile(golden, []byte(text.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if text.String() != string(want) {
				t.Errorf("%s is no longer what the chart makes; if that is meant: go test ./helm -run Golden -update", golden)
			}
		})
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, name := range cases {
		result := lint.AllWithKubeVersion("outrider", valuesOf(t, name), "prod", nil)
		for _, m := range result.Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// objects are what a render made, decoded by the types of their APIs; a field that these do not have is an error.
type objects struct {
	config     core.ConfigMap
	deployment apps.Deployment
	service    *core.Service
	account    *core.ServiceAccount
	budget     *policy.PodDisruptionBudget
	network    *networking.NetworkPolicy
	monitor    *monitoring.ServiceMonitor
	rule       *monitoring.PrometheusRule
}

func decoded(t *testing.T, files map[string]string) objects {
	t.Helper()
	var o objects
	kinds := map[string]struct {
		version string
		into    func() any
	}{
		"ConfigMap":           {"v1", func() any { return &o.config }},
		"Deployment":          {"apps/v1", func() any { return &o.deployment }},
		"Service":             {"v1", func() any { o.service = &core.Service{}; return o.service }},
		"ServiceAccount":      {"v1", func() any { o.account = &core.ServiceAccount{}; return o.account }},
		"PodDisruptionBudget": {"policy/v1", func() any { o.budget = &policy.PodDisruptionBudget{}; return o.budget }},
		"NetworkPolicy":       {"networking.k8s.io/v1", func() any { o.network = &networking.NetworkPolicy{}; return o.network }},
		"ServiceMonitor":      {"monitoring.coreos.com/v1", func() any { o.monitor = &monitoring.ServiceMonitor{}; return o.monitor }},
		"PrometheusRule":      {"monitoring.coreos.com/v1", func() any { o.rule = &monitoring.PrometheusRule{}; return o.rule }},
	}
	for file, text := range files {
		if file == "NOTES.txt" {
			continue
		}
		var head struct{ APIVersion, Kind string }
		must(t, yaml.Unmarshal([]byte(text), &head))
		kind, ok := kinds[head.Kind]
		if !ok || kind.version != head.APIVersion {
			t.Fatalf("%s has a %s of %s", file, head.Kind, head.APIVersion)
		}
		if err := yaml.UnmarshalStrict([]byte(text), kind.into()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	return o
}

// parse reads the configuration that the pod gets. Files that the pod has and this machine has not are replaced.
func parse(t *testing.T, o objects) *config.Config {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	text := o.config.Data["outrider.yaml"]
	for _, m := range o.deployment.Spec.Template.Spec.Containers[0].VolumeMounts {
		for line := range strings.SplitSeq(text, "\n") {
			if _, file, ok := strings.Cut(line, "_file: "); ok && strings.HasPrefix(file, m.MountPath+"/") && !strings.HasSuffix(file, ".crt") {
				text = strings.ReplaceAll(text, file, secret)
			}
		}
	}
	text = strings.ReplaceAll(text, "/etc/kafka/ca.crt", authority(t))
	cfg, err := config.Parse("outrider.yaml", []byte(text), func(name string) (string, bool) {
		scheme := "postgres"
		if strings.Contains(text, "type: mysql") {
			scheme = "mysql"
		}
		value, ok := map[string]string{"DATABASE_URL": scheme + "://relay@db/shop", "KAFKA_PASSWORD": "secret", "HOOK_URL": "https://example.com/hook"}[name]
		return value, ok
	})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return cfg
}

// Kubernetes reads every object, Outrider its configuration, and they fit each other.
func TestObjects(t *testing.T) {
	t.Parallel()
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := decoded(t, rendered(t, name))
			cfg := parse(t, o)
			pod := o.deployment.Spec.Template
			checkPod(t, pod, cfg)
			for what, selector := range selectors(o) {
				for key, value := range selector {
					if pod.Labels[key] != value || len(selector) != 2 {
						t.Errorf("the pods are not those of %s: %v", what, selector)
					}
				}
			}
			ports := map[string]bool{}
			for _, p := range pod.Spec.Containers[0].Ports {
				ports[p.Name] = true
			}
			for _, name := range portsOf(o) {
				if !ports[name] {
					t.Errorf("the pod has no port %s", name)
				}
			}
			if o.account != nil && (*o.account.AutomountServiceAccountToken || o.account.Name != pod.Spec.ServiceAccountName) {
				t.Errorf("the account: %+v", o.account)
			}
		})
	}
}

// checkPod checks a pod against its configuration, and against the standard "restricted" for pods.
func checkPod(t *testing.T, pod core.PodTemplateSpec, cfg *config.Config) {
	t.Helper()
	if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace < time.Duration(cfg.DrainTimeout)+10*time.Second {
		t.Errorf("the grace period %s is not longer than drain_timeout %s", grace, cfg.DrainTimeout)
	}
	if s := pod.Spec.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || *pod.Spec.AutomountServiceAccountToken {
		t.Errorf("the pod: %+v", s)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		s := c.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("container %s: %+v", c.Name, s)
		}
	}
	c := pod.Spec.Containers[0]
	var probes, admin string
	for _, p := range c.Ports {
		switch p.Name {
		case "probes":
			probes = fmt.Sprintf("0.0.0.0:%d", p.ContainerPort)
		case "admin":
			admin = fmt.Sprintf("0.0.0.0:%d", p.ContainerPort)
		}
	}
	if cfg.Admin.Probes != probes || cfg.Admin.Enabled() != (admin != "") || cfg.Admin.Enabled() && cfg.Admin.Listen != admin {
		t.Errorf("the relay listens at %s and %s, the pod says %s and %s", cfg.Admin.Probes, cfg.Admin.Listen, probes, admin)
	}
	for path, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "probes" || c.StartupProbe.HTTPGet.Path != "/livez" {
			t.Errorf("probe %s: %+v", path, probe)
		}
	}
}

// selectors are the labels by which objects find the pods.
func selectors(o objects) map[string]map[string]string {
	out := map[string]map[string]string{"the Deployment": o.deployment.Spec.Selector.MatchLabels}
	if o.service != nil {
		out["the Service"] = o.service.Spec.Selector
	}
	if o.budget != nil {
		out["the PodDisruptionBudget"] = o.budget.Spec.Selector.MatchLabels
	}
	if o.network != nil {
		out["the NetworkPolicy"] = o.network.Spec.PodSelector.MatchLabels
	}
	if o.monitor != nil {
		out["the ServiceMonitor"] = o.monitor.Spec.Selector.MatchLabels
	}
	return out
}

// portsOf are the ports of the pod that objects name.
func portsOf(o objects) (names []string) {
	if o.service != nil {
		for _, p := range o.service.Spec.Ports {
			names = append(names, p.TargetPort.StrVal)
		}
	}
	if o.network != nil {
		for _, rule := range o.network.Spec.Ingress {
			for _, p := range rule.Ports {
				names = append(names, p.Port.StrVal)
			}
		}
	}
	if o.monitor != nil {
		for _, e := range o.monitor.Spec.Endpoints {
			names = append(names, e.Port)
		}
	}
	return names
}
