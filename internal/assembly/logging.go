package assembly

import (
	"context"
	"log/slog"

	"github.com/outriderhq/outrider/internal/shorten"
)

// cutTexts is a handler that cuts the values of a record at 1 KiB (see [shorten.Text]):
// errors quote what receivers answer, and ids and tenants are as long as applications
// make them. Where a panic began is whole.
type cutTexts struct{ slog.Handler }

// Handle implements [slog.Handler].
func (c cutTexts) Handle(ctx context.Context, r slog.Record) error {
	cut := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		cut.AddAttrs(cutAttr(a))
		return true
	})
	return c.Handler.Handle(ctx, cut)
}

// WithAttrs implements [slog.Handler].
func (c cutTexts) WithAttrs(attrs []slog.Attr) slog.Handler {
	cut := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cut[i] = cutAttr(a)
	}
	return cutTexts{c.Handler.WithAttrs(cut)}
}

// WithGroup implements [slog.Handler].
func (c cutTexts) WithGroup(name string) slog.Handler { return cutTexts{c.Handler.WithGroup(name)} }

// cutAttr cuts a text or an error.
func cutAttr(a slog.Attr) slog.Attr {
	if a.Key == "stack" {
		return a
	}
	v := a.Value.Resolve()
	if v.Kind() == slog.KindString {
		a.Value = slog.StringValue(shorten.Text(v.String()))
	} else if err, ok := v.Any().(error); ok {
		if text := err.Error(); len(text) > len(shorten.Text(text)) {
			a.Value = slog.StringValue(shorten.Text(text))
		}
	}
	return a
}
