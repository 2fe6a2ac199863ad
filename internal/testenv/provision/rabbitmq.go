package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// EnvRabbitMQ names the folder of RabbitMQ's scripts (rabbitmq-server, rabbitmqctl) and overrides the search for them.
const EnvRabbitMQ = "OUTRIDER_RABBITMQ_SBIN"

const (
	rabbitPackage = "rabbitmq-server"
	rabbitFolder  = "rabbitmq-debian"
	rabbitSize    = "about 40 MB"
)

// erlangPackages are Debian's packages that RabbitMQ needs.
var erlangPackages = []string{
	"erlang-base", "erlang-asn1", "erlang-crypto", "erlang-eldap", "erlang-ftp", "erlang-inets", "erlang-mnesia", "erlang-os-mon", "erlang-parsetools",
	"erlang-public-key", "erlang-runtime-tools", "erlang-snmp", "erlang-ssl", "erlang-syntax-tools", "erlang-tftp", "erlang-tools", "erlang-xmerl",
}

var errNoRabbitMQ = errors.New("no RabbitMQ found: install it with Erlang (`make test` does, with apt as root), or set " + EnvRabbitMQ + " to the folder of its scripts")

// RabbitMQ returns the folder of RabbitMQ's scripts. Debian's package is unpacked into the cache folder, not installed: its installation would start
// a service of the system.
func (h Host) RabbitMQ(ctx context.Context) (sbin string, err error) {
	if sbin := os.Getenv(EnvRabbitMQ); sbin != "" {
		if !hasRabbit(sbin) {
			return "", fmt.Errorf("%s: %s does not hold rabbitmq-server and rabbitmqctl", EnvRabbitMQ, sbin)
		}
		return sbin, nil
	}
	if sbin, ok := findRabbitMQ(); ok {
		return sbin, nil
	}
	if !h.Install || !hasApt() {
		return "", errNoRabbitMQ
	}
	if _, err := h.apt(ctx, erlangPackages...); err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	if err := fill(filepath.Join(cache, rabbitFolder), func(dir string) error { return h.unpackDebian(ctx, rabbitPackage, dir) }); err != nil {
		return "", err
	}
	if sbin, ok := findRabbitMQ(); ok {
		return sbin, nil
	}
	return "", errNoRabbitMQ
}

// unpackDebian downloads a package of Debian and unpacks it into a folder.
func (h Host) unpackDebian(ctx context.Context, name, dir string) error {
	download := exec.CommandContext(ctx, "apt-get", "download", "-q", name)
	download.Dir = dir
	if err := h.run(ctx, "downloading "+name, download); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("expected one package %s, got %d (%w)", name, len(found), err)
	}
	return h.run(ctx, "unpacking "+name, exec.CommandContext(ctx, "dpkg", "-x", found[0], dir))
}

// findRabbitMQ looks where packages put the scripts, the newest version first. Those on the PATH change the user, and are not wanted.
func findRabbitMQ() (sbin string, ok bool) {
	if _, err := exec.LookPath("erl"); err != nil {
		return "", false
	}
	const debian = "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin" // below a root
	patterns := []string{"/" + debian, "/opt/homebrew/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"}
	if cache, err := cacheDir(); err == nil {
		patterns = append(patterns, filepath.Join(cache, rabbitFolder, debian))
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		for _, dir := range slices.Backward(found) {
			if hasRabbit(dir) {
				return dir, true
			}
		}
	}
	return "", false
}

func hasRabbit(sbin string) bool {
	for _, script := range []string{"rabbitmq-server", "rabbitmqctl"} {
		if info, err := os.Stat(filepath.Join(sbin, script)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// MissingRabbitMQ is [Host.MissingPostgres] for [Host.RabbitMQ].
func (h Host) MissingRabbitMQ(context.Context) []string {
	if os.Getenv(EnvRabbitMQ) != "" || !hasApt() {
		return nil
	}
	if _, ok := findRabbitMQ(); ok {
		return nil
	}
	return []string{"RabbitMQ: packages of Erlang, and " + rabbitPackage + intoCache() + ", with apt, " + rabbitSize}
}
