package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each alert links to a section that says its cause, what to look at, and what to do; no section is left of an alert that is gone.
func TestAlertsHaveASection(t *testing.T) {
	t.Parallel()
	rules, page := read(t, "deploy/prometheus/alerts.yaml"), read(t, "docs/alerts.md")
	const at = "runbook_url: https://github.com/outriderhq/outrider/blob/main/docs/alerts.md#"
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	for _, a := range alerts {
		if !strings.Contains(rules, at+slug(a[1])+"\n") {
			t.Errorf("%s has no link to its section", a[1])
		}
		_, section, ok := strings.Cut(page, "\n## "+a[1]+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"- **Cause**: ", "- **Look**: ", "- **Mend**: "} {
			if !ok || !strings.Contains(section, part) {
				t.Errorf("the section of %s lacks %q", a[1], part)
			}
		}
	}
	if n := strings.Count(page, "\n## "); n != len(alerts) || n == 0 {
		t.Errorf("%d sections, %d alerts", n, len(alerts))
	}
}

// Alerts and the dashboard use no metric that does not exist.
func TestAlertsAndDashboardUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/metrics.md")
	for _, path := range []string{"deploy/prometheus/alerts.yaml", "deploy/grafana/outrider.json"} {
		for _, name := range regexp.MustCompile(`\b(outrider|outbox)_[a-z_]+`).FindAllString(read(t, path), -1) {
			name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if !strings.Contains(page, "| `"+name+"` |") {
				t.Errorf("%s: docs/metrics.md has no %s", path, name)
			}
		}
	}
}
