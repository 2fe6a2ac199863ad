package action

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// Statuses are those of parked messages, those that need attention first.
var Statuses = []adapters.ParkedStatus{adapters.ParkedHeld, adapters.ParkedDead, adapters.ParkedRetrying, adapters.ParkedWaiting}

// Filter reads which parked messages a form or a link selects. It also returns the names and values that are set.
func Filter(v url.Values) (f adapters.ParkedFilter, set [][2]string, err error) {
	status, failure, before := "", "", ""
	for _, field := range []struct {
		name string
		to   *string
	}{{"route", &f.Route}, {"status", &status}, {"type", &f.Type}, {"group", &f.Group}, {"id", &f.ID}, {"error", &f.Error}, {"failure", &failure}, {"before", &before}} {
		if *field.to = strings.TrimSpace(v.Get(field.name)); *field.to != "" {
			set = append(set, [2]string{field.name, *field.to})
		}
	}
	f.Status = adapters.ParkedStatus(status)
	if status != "" && !slices.Contains(Statuses, f.Status) {
		return f, set, server.Failed(http.StatusUnprocessableEntity, "there is no status %q", status)
	}
	if failure != "" {
		if f.Failure, err = operate.ParseFailure(failure); err != nil {
			return f, set, operate.Mistake{Err: err}
		}
	}
	if before != "" {
		f.Before, err = parseTime(before)
	}
	return f, set, err
}

// parseTime reads a time as links write it, and as a browser's field does, in UTC.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 && t.Year() <= 9999 {
			return t, nil
		}
	}
	return time.Time{}, server.Failed(http.StatusUnprocessableEntity, "%q is not a time such as 2026-01-31T08:00", text)
}
