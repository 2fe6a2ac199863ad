package broker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
)

func topics(t *testing.T, template string) *broker.Topics {
	t.Helper()
	out, err := broker.NewTopics(broker.TopicsConfig{Noun: "subject", List: "subjects", Template: template,
		Valid: func(name string) error {
			if strings.Contains(name, " ") {
				return errors.New("a space")
			}
			return nil
		},
		Reserved: func(name string) error {
			if strings.HasPrefix(name, "$") {
				return errors.New("the server's own")
			}
			return nil
		},
		Allowed: func(name string) bool { return name != "orders.secret" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestATemplateLeadsToWhatIsAllowed(t *testing.T) {
	for typ, want := range map[string]string{"paid": "", "secret": `subject "orders.secret" is none that the destination allows (subjects)`,
		"a b": "a space", "": "has nothing to put into"} {
		msg := message.NewMessage("1", nil)
		msg.Metadata.Set(outbox.MetaType, typ)
		name, err := topics(t, "orders.{{.Type}}").Of(msg)
		switch {
		case want == "" && (err != nil || name != "orders."+typ):
			t.Errorf("type %q: %q, %v", typ, name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || outbox.KindOf(err) != outbox.KindPermanent):
			t.Errorf("type %q: %v, want a permanent %q", typ, err, want)
		}
	}
	msg := message.NewMessage("1", nil)
	msg.Metadata.Set(outbox.MetaType, "$SYS")
	if _, err := topics(t, "{{.Type}}").Of(msg); err == nil {
		t.Error("a template led to a reserved name")
	}
	if name, err := topics(t, "$SYS").Of(msg); err != nil || name != "$SYS" {
		t.Errorf("the name that an operator wrote himself: %q, %v", name, err)
	}
}

func TestProducesSaysWhatADestinationCreates(t *testing.T) {
	for template, names := range map[string]map[string]bool{
		"orders":               {"orders": true, "other": false},
		"orders.{{.Type}}":     {"orders.paid": true, "orders.": false, "other.paid": false, "orders.secret": false},
		"{{.Tenant}}.{{.ID}}!": {"a.b!": true, "a.b": false, "$a.b!": false},
	} {
		for name, want := range names {
			if err := topics(t, template).Produces(name); (err == nil) != want {
				t.Errorf("%s leads to %s: %v", template, name, err)
			}
		}
	}
}

func TestTheFirstOfAGroupIsCharged(t *testing.T) {
	transient := outbox.Transient(errors.New("no"), 0)
	errs := []error{nil, transient, transient, transient, outbox.Permanent(errors.New("bad")), transient}
	groups := []string{"a", "a", "a", "b", "a", ""}
	broker.ChargeHeads(errs, func(i int) string { return groups[i] })
	for i, want := range []outbox.Kind{0, outbox.KindTransient, outbox.KindReleased, outbox.KindTransient, outbox.KindPermanent, outbox.KindTransient} {
		if errs[i] != nil && outbox.KindOf(errs[i]) != want {
			t.Errorf("message %d: %v, want %v", i, errs[i], want)
		}
	}
}
