package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/config"
)

func (a *app) probeCommand() *cobra.Command {
	var live, ready bool
	var address string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "probe",
		Short: "Ask the relay on this host whether it is live or ready",
		Long: `Asks the relay on this host whether it is ready (--ready, the default) or live (--live), for
HEALTHCHECK and exec probes in images without a shell. It asks at admin.probes of the
configuration, otherwise at admin.listen; an address such as 0.0.0.0:8081 is asked on
loopback. Errors in other parts of the file do not matter. With --url it reads no file.

The exit status is 0 if the relay answers yes. It is 1 if it answers no, does not answer
within --timeout, or cannot be asked; the reason is printed.`,
		Args: noArgs,
	}
	flags := c.Flags()
	flags.BoolVar(&live, "live", false, "ask whether the process answers at all")
	flags.BoolVar(&ready, "ready", false, "ask whether the routes work; the default")
	flags.StringVar(&address, "url", "", "`URL` of the probe or admin address, such as http://127.0.0.1:8081; default: from the configuration")
	flags.DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if live && ready {
			return wrong("--live and --ready exclude each other")
		}
		if address == "" {
			found, err := a.probeAddress()
			if err != nil {
				return fmt.Errorf("cannot tell where to ask: %v", err) //nolint:errorlint // not wrapped: exit status 2 is reserved by Docker
			}
			address = found
		}
		path := "/readyz"
		if live {
			path = "/livez"
		}
		answer, err := probe(c.Context(), strings.TrimSuffix(address, "/")+path, timeout)
		if err == nil {
			fmt.Fprintln(a.out, answer)
		}
		return err
	}
	return c
}

// probeAddress returns the URL at which the configured relay answers probes on this host.
func (a *app) probeAddress() (string, error) {
	cfg, err := a.loadBy(config.LoadAddresses)
	if err != nil {
		return "", err
	}
	at := cmp.Or(cfg.Admin.Probes, cfg.Admin.Listen)
	if at == "off" {
		return "", errors.New("the configuration has admin: {listen: off}: add probes: 127.0.0.1:8081 to it, or pass --url")
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", fmt.Errorf("the relay chooses the port of %s: configure one, or pass --url", at)
	}
	if ip := net.ParseIP(host); host == "" || ip.Equal(net.IPv4zero) {
		host = "127.0.0.1"
	} else if ip.IsUnspecified() {
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// probe asks one path and returns the answer; the error is why that is no yes.
func probe(ctx context.Context, url string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, // never by a proxy of the environment
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", noAnswer(ctx, url, timeout, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", noAnswer(ctx, url, timeout, err)
	}
	answer := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", url, resp.Status, answer)
	}
	return answer, nil
}

func noAnswer(ctx context.Context, url string, timeout time.Duration, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer from %s within %s", url, timeout)
	}
	return fmt.Errorf("no relay answers: %w", err)
}
