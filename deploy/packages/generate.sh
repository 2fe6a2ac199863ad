#!/bin/sh
# Writes man pages and completions to bin/packages, where .goreleaser.yaml takes them from.
set -eu
cd "$(dirname "$0")/../.."
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

out=bin/packages
rm -rf "$out"
mkdir -p "$out/completions"
# With the flags of the release, so that its build finds every package compiled.
CGO_ENABLED=0 GOOS='' GOARCH='' go build -trimpath -ldflags '-s -w' -o "$out/outrider" ./cmd/outrider
"$out/outrider" man "$out/man"
gzip -9n "$out"/man/*
"$out/outrider" completion bash >"$out/completions/outrider.bash"
"$out/outrider" completion zsh >"$out/completions/_outrider"
"$out/outrider" completion fish >"$out/completions/outrider.fish"
rm "$out/outrider"
