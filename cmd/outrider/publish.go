package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

// publication has the flags of publish.
type publication struct {
	source, typ, group, id, tenant string
	aggregateType, aggregateID     string
	headers, tags                  []string
	payload, file                  string
	binary                         bool
}

func (a *app) publishCommand() *cobra.Command {
	p := &publication{}
	c := &cobra.Command{
		Use:   "publish --type TYPE (--payload JSON | --payload-file FILE | -)",
		Short: "Write one message to an outbox table",
		Long: `Writes one message to the outbox table of a source and prints its event id. Use it for
tests: applications publish in their own transactions, with the Go package outbox or an
INSERT.`,
		Example: `  outrider publish --type order.created --group customer-7 --payload '{"order": 42}'
  jq .order order.json | outrider publish --type order.created -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "-" {
				return fmt.Errorf("unknown argument %q: the payload is given by --payload, --payload-file or -", args[len(args)-1])
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&p.source, "source", "", "source whose table it is; default: the only one")
	flags.StringVar(&p.typ, "type", "", "event type, for example order.created")
	flags.StringVar(&p.group, "group", "", "message group; messages of a group are delivered in order")
	flags.StringVar(&p.id, "id", "", "event id; default: a new one")
	flags.StringVar(&p.tenant, "tenant", "", "tenant id")
	flags.StringVar(&p.aggregateType, "aggregate-type", "", "type of the aggregate, for example order")
	flags.StringVar(&p.aggregateID, "aggregate-id", "", "id of the aggregate")
	flags.StringArrayVar(&p.headers, "header", nil, "header as `name=value`; may be given several times")
	flags.StringArrayVar(&p.tags, "tag", nil, "tag as `key=value`; may be given several times")
	flags.StringVar(&p.payload, "payload", "", "payload, JSON")
	flags.StringVar(&p.file, "payload-file", "", "file with the payload; - reads standard input")
	flags.BoolVar(&p.binary, "binary", false, "the payload is bytes, not JSON")
	_ = c.RegisterFlagCompletionFunc("source", a.completeSources)
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			if p.file != "" {
				return wrong("pass the payload once: --payload-file or -")
			}
			p.file = args[0]
		}
		return a.publish(c, p, out)
	}
	return c
}

func (a *app) publish(c *cobra.Command, p *publication, out *output) error {
	cfg, err := a.loadState()
	if err != nil {
		return err
	}
	source, err := chooseSource(cfg, p.source)
	if err != nil {
		return err
	}
	envelope, err := p.envelope(a.in, c.Flags().Changed("payload"))
	if err != nil {
		return wrongError{err}
	}
	if err := operate.Publish(c.Context(), cfg, source, envelope); err != nil {
		return err
	}
	routes := operate.RoutesFor(cfg, source, &envelope)
	if len(routes) == 0 {
		fmt.Fprintf(a.err, "warning: no route of source %s matches type %q: the message was written, but nothing will deliver it\n", source, envelope.Type())
	}
	if out.json() {
		return a.printJSON(publishAnswer{envelope.ID(), source, routes})
	}
	fmt.Fprintln(a.out, envelope.ID())
	return nil
}

// completeSources offers the names of sources to the shell.
func (a *app) completeSources(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.loadState()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(cfg.Sources)), cobra.ShellCompDirectiveNoFileComp
}

// chooseSource is the named source, or the only one.
func chooseSource(cfg *config.Config, name string) (string, error) {
	names := slices.Sorted(maps.Keys(cfg.Sources))
	switch {
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "":
		return "", wrong("several sources are configured: choose one with --source: %s", strings.Join(names, ", "))
	case !slices.Contains(names, name):
		return "", wrong("--source %q: the configuration has %s", name, strings.Join(names, ", "))
	}
	return name, nil
}

func (p *publication) envelope(stdin io.Reader, payloadGiven bool) (outbox.Envelope, error) {
	b := outbox.New(p.typ).Group(p.group).Tenant(p.tenant).Aggregate(p.aggregateType, p.aggregateID)
	if p.id != "" {
		b.ID(p.id)
	}
	if err := pairs("header", p.headers, func(k, v string) { b.Header(k, v) }); err != nil {
		return outbox.Envelope{}, err
	}
	if err := pairs("tag", p.tags, func(k, v string) { b.Tag(k, v) }); err != nil {
		return outbox.Envelope{}, err
	}
	raw, err := p.read(stdin, payloadGiven)
	if err != nil {
		return outbox.Envelope{}, err
	}
	if p.binary {
		e, err := b.Bytes(raw).Build()
		return e, inFlags(err)
	}
	e, err := b.RawJSON(bytes.TrimSpace(raw)).Build()
	return e, inFlags(err)
}

// inFlags is the error of an envelope in words of the command line.
func inFlags(err error) error {
	e, ok := errors.AsType[*outbox.EnvelopeError](err)
	if !ok {
		return err
	}
	texts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		texts[i] = fmt.Sprintf("the %s %s", f.Field, f.Problem)
	}
	return errors.New(strings.NewReplacer("publish other data with Bytes", "pass --binary for other data", "publish it with Bytes", "pass --binary",
		"publish with Bytes", "pass --binary").Replace(strings.Join(texts, "; ")))
}

// read returns the payload from where the flags say.
func (p *publication) read(stdin io.Reader, given bool) ([]byte, error) {
	switch {
	case given && p.file != "":
		return nil, errors.New("pass the payload once: --payload, --payload-file or -")
	case given:
		return []byte(p.payload), nil
	case p.file == "":
		return nil, errors.New("a message needs a payload: --payload JSON, --payload-file FILE, or - for standard input")
	}
	from := stdin
	if p.file != "-" {
		f, err := os.Open(p.file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, outbox.MaxPayloadBytes+1))
	if err != nil || len(raw) <= outbox.MaxPayloadBytes {
		return raw, err
	}
	size := fmt.Sprintf("more than %d", outbox.MaxPayloadBytes)
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = strconv.FormatInt(info.Size(), 10)
		}
	}
	return nil, fmt.Errorf("the payload is %s bytes, the limit is %d; store large content elsewhere and publish its location", size, outbox.MaxPayloadBytes)
}

// pairs takes texts of the form key=value apart.
func pairs(flag string, texts []string, take func(key, value string)) error {
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("--%s %q is not of the form name=value", flag, text)
		}
		take(key, value)
	}
	return nil
}

// completeTails offers what can be tailed: sources, and routes.
func (a *app) completeTails(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sources, _ := a.completeSources(c, args, typed)
	routes, directive := a.completeRoutes(c, args, typed)
	return append(sources, routes...), directive
}
