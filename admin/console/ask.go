package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// A command asks the relay at the admin address only after the relay has proved that it has the same state store: another
// installation may listen there, and must not get our token. The command sends a challenge, and the relay answers with a proof that
// only a reader of the state store can make: it is keyed by the registration of the relay's instance.
const (
	ChallengeHeader = "Outrider-Challenge"
	ProofHeader     = "Outrider-Proof"
	challengeMost   = 64 // characters of a challenge
)

// ErrNoRelay is why a command does not ask a relay: none answers at the admin address.
var ErrNoRelay = errors.New("no relay answers on the admin address")

// ErrOtherRelay is why a command does not ask the relay at the admin address.
var ErrOtherRelay = errors.New("the relay at the admin address did not prove that it has this state store: " +
	"it belongs to another installation, is still starting, or is older than this program")

// proofOf is the answer to a challenge of a relay whose instance is registered so.
func proofOf(in *adapters.Instance, challenge string) string {
	mac := hmac.New(sha256.New, []byte(in.ID+in.JoinedAt.UTC().Format(time.RFC3339Nano)))
	_, _ = mac.Write([]byte(challenge)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// registrations are those of this instance in its state stores, as they were found lately.
type registrations struct {
	at    time.Time
	found []adapters.Instance
}

// registrationsAge is how long they are remembered: anyone may ask for a proof, and that must not become a load for the state store.
const registrationsAge = 5 * time.Second

// Prove answers a challenge, with a proof for each state store; empty: this instance has not joined yet.
func (c *Console) Prove(ctx context.Context, challenge string) string {
	if c.relay.Instance == nil || len(challenge) > challengeMost {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	c.proving.Lock()
	defer c.proving.Unlock()
	if time.Since(c.registered.at) > registrationsAge {
		name := c.relay.Instance()
		var found []adapters.Instance
		_ = c.Use(ctx, func(op *operate.Operator) (err error) { // without an answer there is no proof
			found, err = op.Instances(ctx)
			return err
		})
		found = slices.DeleteFunc(found, func(in adapters.Instance) bool { return in.ID != name })
		c.registered = registrations{time.Now(), found}
	}
	var proofs []string
	for i := range c.registered.found {
		proofs = append(proofs, proofOf(&c.registered.found[i], challenge))
	}
	return strings.Join(proofs, " ")
}

// askPatience bounds what is asked of a relay before it is trusted.
const askPatience = time.Second

// RunningRoutes returns the routes of the relay on the configured admin address, by name. The error says why none is asked.
func RunningRoutes(ctx context.Context, op *operate.Operator) (map[string]status.Route, error) {
	var answer struct {
		Routes []status.Route `json:"routes"`
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askPatience)
	defer cancel()
	if err := Ask(ctx, op, "/routes", &answer); err != nil {
		return nil, err
	}
	out := map[string]status.Route{}
	for _, r := range answer.Routes {
		out[r.Route] = r
	}
	return out, nil
}

// Ask gets a path of the relay on the configured admin address, with one of the configured tokens, and decodes the answer. A
// relay that does not prove that it has the same state store is not asked, and gets no token.
func Ask(ctx context.Context, op *operate.Operator, path string, answer any) error {
	cfg := op.Builder().Config.Admin
	if !cfg.Enabled() {
		return ErrNoRelay
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if err := trust(ctx, op, client, "http://"+cfg.Listen); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cfg.Listen+path, http.NoBody)
	if err != nil {
		return err
	}
	if tokens := slices.Concat(cfg.Tokens, cfg.OperateTokens, cfg.AdminTokens); len(tokens) > 0 {
		req.Header.Set("Authorization", "Bearer "+tokens[0].Reveal())
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		err = json.NewDecoder(resp.Body).Decode(answer)
	} else {
		err = fmt.Errorf("the relay at the admin address answers %s: %s", path, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// trust checks the relay's answer to a challenge against the instances of our own state stores.
func trust(ctx context.Context, op *operate.Operator, client *http.Client, base string) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/livez", http.NoBody)
	if err != nil {
		return err
	}
	challenge := rand.Text()
	req.Header.Set(ChallengeHeader, challenge)
	resp, err := client.Do(req)
	if err != nil {
		return errors.Join(ErrNoRelay, err)
	}
	_ = resp.Body.Close() // the header has the answer
	instances, err := op.Instances(ctx)
	if err != nil {
		return err
	}
	proofs := strings.Fields(resp.Header.Get(ProofHeader))
	for i := range instances {
		if slices.Contains(proofs, proofOf(&instances[i], challenge)) {
			return nil
		}
	}
	return ErrOtherRelay
}
