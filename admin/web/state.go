package web

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// destinationLine is a destination with the addresses that are not used now.
type destinationLine struct {
	Name, Kind string
	Routes     []string
	Dead       []string // routes whose dead messages are copied to it
	Down       []addressLine
}

// addressLine is an address of a route that is not used now.
type addressLine struct {
	Route string
	status.Stop
}

type destinationsData struct {
	Route string
	Lines []destinationLine
	Down  int
	Cut   int // addresses that are not shown
}

// addressesMost is how many addresses a page shows.
const addressesMost = 200

func (s *pages) destinations(r *http.Request) (*page, error) {
	d := destinationsData{Route: r.URL.Query().Get("route")}
	cfg, snap := s.console.Config(), s.console.Status(r.Context())
	index := map[string]int{}
	for _, name := range sortedNames(cfg.Destinations) {
		index[name] = len(d.Lines)
		d.Lines = append(d.Lines, destinationLine{Name: name, Kind: cfg.Destinations[name].Kind()})
	}
	to := map[string]string{}
	for _, route := range cfg.Routes {
		if i, ok := index[route.DeadTo()]; ok && (d.Route == "" || d.Route == route.Name) {
			d.Lines[i].Dead = append(d.Lines[i].Dead, route.Name)
		}
		for _, target := range route.Targets {
			if i, ok := index[target]; ok && (d.Route == "" || d.Route == route.Name) {
				to[route.Name] = target
				d.Lines[i].Routes = append(d.Lines[i].Routes, route.Name)
			}
		}
	}
	for i := range snap.Routes {
		target, ok := to[snap.Routes[i].Route]
		if !ok {
			continue
		}
		for _, stop := range snap.Routes[i].Down {
			if d.Down++; d.Down > addressesMost {
				d.Cut++
				continue
			}
			line := &d.Lines[index[target]]
			line.Down = append(line.Down, addressLine{snap.Routes[i].Route, stop})
		}
	}
	d.Lines = slices.DeleteFunc(d.Lines, func(l destinationLine) bool { return d.Route != "" && len(l.Routes)+len(l.Dead) == 0 })
	slices.SortStableFunc(d.Lines, func(a, b destinationLine) int { return len(b.Down) - len(a.Down) })
	return &page{Name: "destinations", Title: "Destinations", Data: d}, nil
}

type instancesData struct {
	Members []status.Member
	Problem string
}

func (s *pages) instances(r *http.Request) (*page, error) {
	snap := s.console.Status(r.Context())
	d := instancesData{Members: snap.Instances}
	if snap.Problem != nil {
		d.Problem = snap.Problem.Error()
	}
	return &page{Name: "instances", Title: "Instances", Data: d}, nil
}

// auditLine is a record with its filter as names and values.
type auditLine struct {
	adapters.AuditRecord
	About [][2]string
}

type auditData struct {
	Lines []auditLine
	Next  link
	First bool
}

// auditMost is how many records a page shows.
const auditMost = 50

func (s *pages) audit(r *http.Request) (*page, error) {
	ctx := r.Context()
	before := r.URL.Query().Get("before")
	d := auditData{First: before == ""}
	err := s.console.Use(ctx, func(op *operate.Operator) error {
		records, next, err := op.Audit(ctx, before, auditMost)
		for _, record := range records {
			line := auditLine{AuditRecord: record}
			about := map[string]string{}
			if json.Unmarshal([]byte(record.Filter), &about) != nil {
				about = map[string]string{"": record.Filter} // another program wrote it
			}
			for _, name := range sortedNames(about) {
				line.About = append(line.About, [2]string{name, about[name]})
			}
			d.Lines = append(d.Lines, line)
		}
		if next != "" {
			d.Next = query("before", next)
		}
		return err
	})
	return &page{Name: "audit", Title: "Audit log", Data: d}, err
}

type configData struct {
	Text    string
	Build   operate.Build
	Pending string
}

func (s *pages) config(*http.Request) (*page, error) {
	return &page{Name: "config", Title: "Configuration", Data: configData{s.console.Config().Redacted(), operate.Version(), action.Pending(s.console)}}, nil
}
