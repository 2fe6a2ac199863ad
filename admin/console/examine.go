package console

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/config"
)

// DiagnosisView is a [doctor.Diagnosis] as the command line tool and the API show it.
type DiagnosisView struct {
	Part    string `json:"part" doc:"Of the configuration, such as source app or route orders."`
	Level   string `json:"level" enum:"ok,unknown,warning,broken"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty" doc:"What to do."`
}

// ViewDiagnoses shows what [doctor.Doctor] found, and counts what is broken and the warnings.
func ViewDiagnoses(found []doctor.Diagnosis) (views []DiagnosisView, broken, warnings int) {
	views = []DiagnosisView{}
	for _, d := range found {
		views = append(views, DiagnosisView{d.Part, d.Level.String(), d.Subject, d.Text, d.Fix})
		switch d.Level {
		case adapters.LevelBroken:
			broken++
		case adapters.LevelWarning:
			warnings++
		case adapters.LevelOK, adapters.LevelUnknown:
		}
	}
	return views, broken, warnings
}

// Examine is [doctor.Doctor] from within the relay: by its network, its clock and its rights. One examination is made at a time.
// Destinations that the embedding program supplies are not examined: they are in use.
func (c *Console) Examine(ctx context.Context) []doctor.Diagnosis {
	c.examining.Lock()
	defer c.examining.Unlock()
	cfg, options := c.relay.Config(), c.relay.Options
	options.Destinations, options.Listeners = nil, nil
	running := map[string]status.Route{}
	for _, r := range status.RoutesOf(c.relay.Stats()) {
		running[r.Route] = r
	}
	return append(doctor.Examine(ctx, cfg, options), Troubles(cfg, running)...)
}

// Troubles are the problems that a running relay has with its routes, by their names.
func Troubles(cfg *config.Config, running map[string]status.Route) []doctor.Diagnosis {
	var found []doctor.Diagnosis
	for _, r := range cfg.Routes {
		part := "running route " + r.Name
		if stopped := running[r.Name].Stopped; stopped != "" {
			found = append(found, doctor.Diagnosis{Part: part, Finding: adapters.Finding{
				Level: adapters.LevelBroken, Subject: "relay", Text: "cannot run it: " + stopped, Fix: "correct the cause above; the relay then resumes by itself"}})
		}
		for _, d := range running[r.Name].Down {
			if d.Gone {
				continue // a pause, which has been reported
			}
			found = append(found, doctor.Diagnosis{Part: part, Finding: adapters.Finding{
				Level: adapters.LevelWarning, Subject: "address " + d.Address,
				Text: fmt.Sprintf("is not used since %s: %s", d.Since.UTC().Format(time.RFC3339), d.Cause),
				Fix:  "none needed in the relay: it probes the address and resumes when it answers"}})
		}
	}
	return found
}
