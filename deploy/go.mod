// What operators take to deploy Outrider, and its tests, in a module of its own: their dependencies (Helm, Prometheus) reach neither
// Outrider nor those who import it. It is no part of go.work, whose modules share one set of versions.
module github.com/outriderhq/outrider/deploy

go 1.26.0

replace github.com/outriderhq/outrider => ../
