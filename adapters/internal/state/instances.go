package state

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// EncodeRoutes returns what an instance announces as a JSON array.
func EncodeRoutes(routes []adapters.RunningRoute) string {
	clean := make([]adapters.RunningRoute, len(routes))
	for i, r := range routes {
		clean[i] = adapters.RunningRoute{Route: Pack(r.Route), Unit: Pack(r.Unit), Waits: Clean(r.Waits)}
	}
	// Structs of strings cannot fail to encode.
	b, _ := json.Marshal(clean)
	return string(b)
}

// DecodeRoutes is the inverse of [EncodeRoutes].
func DecodeRoutes(text string) ([]adapters.RunningRoute, error) {
	var routes []adapters.RunningRoute
	if err := json.Unmarshal([]byte(text), &routes); err != nil {
		return nil, fmt.Errorf("the routes of an instance are not a JSON array of objects: %w", err)
	}
	for i, r := range routes {
		routes[i].Route, routes[i].Unit = Unpack(r.Route), Unpack(r.Unit)
	}
	return routes, nil
}

// announced has the routes that instances run by their own account, by instance, as last read: it is long where there are hundreds of routes, and changes
// when instances come and go.
type announced map[string]announcement

type announcement struct {
	text   string
	routes []adapters.RunningRoute
}

// of returns what an instance has said; a is nil before the first read.
func (a *announced) of(instance string) announcement {
	if a == nil {
		return announcement{}
	}
	return (*a)[instance]
}

// Instances returns all instances, by id.
func (o *Operators) Instances(ctx context.Context) (instances []adapters.Instance, err error) {
	d := &o.db.Dialect
	s := o.db.query("SELECT i.id, {alive}, " + d.micros("i.lease_until") + " - " + d.micros("{now}") + ", " + d.micros("i.joined_at") + ", " +
		d.micros("i.renewed_at") + ", CAST(i.routes AS {text}) FROM outrider_instance i ORDER BY i.id")
	known, now := o.announced.Load(), announced{}
	err = o.db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var i adapters.Instance
		var left, joined, renewed int64
		var routes string
		if err := scan(&i.ID, &i.Alive, &left, &joined, &renewed, &routes); err != nil {
			return err
		}
		i.Left = time.Duration(left) * time.Microsecond
		i.JoinedAt, i.RenewedAt = instant(joined), instant(renewed)
		a := known.of(i.ID)
		if a.text != routes {
			a.text = routes
			a.routes, err = DecodeRoutes(routes)
		}
		i.Routes, now[i.ID] = slices.Clone(a.routes), a
		instances = append(instances, i)
		return err
	})
	if err == nil {
		o.announced.Store(&now)
	}
	return instances, o.db.Wrap("read the instances", err)
}
