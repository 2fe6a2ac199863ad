package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/failpoint"
)

// TestGuaranteesNameTheFailpoints holds the page's table of steps against the program.
func TestGuaranteesNameTheFailpoints(t *testing.T) {
	t.Parallel()
	pages, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Path == guaranteesPage })
	if i < 0 {
		t.Fatalf("there is no %s", guaranteesPage)
	}
	_, table, _ := strings.Cut(pages[i].Text, "\n| step |")
	table, _, _ = strings.Cut(table, "\n\n")
	var steps []failpoint.Point
	for _, line := range strings.Split(table, "\n")[2:] {
		steps = append(steps, failpoint.Point(Spans(line)[0]))
	}
	if !slices.Equal(steps, failpoint.Points) {
		t.Errorf("%s has the steps %v, the program %v", guaranteesPage, steps, failpoint.Points)
	}
}
