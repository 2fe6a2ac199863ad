package web

import (
	"crypto/rand"
	"sync"
	"time"
)

// notice is the result of an action, on the page that the browser is led to.
type notice struct {
	Text string
	Bad  bool
	at   time.Time
}

const (
	noticeLife  = time.Minute
	noticesMost = 200
)

// notices are those that may still be shown; URLs carry their names only, so that a link
// cannot put words into our mouth.
type notices struct {
	mu  sync.Mutex
	all map[string]notice
}

// add keeps a notice and returns its name.
func (n *notices) add(text string, bad bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[string]notice{}
	}
	now := time.Now()
	for name, one := range n.all {
		if now.Sub(one.at) > noticeLife || len(n.all) >= noticesMost {
			delete(n.all, name)
		}
	}
	name := rand.Text()
	n.all[name] = notice{text, bad, now}
	return name
}

// find returns a notice, or nil.
func (n *notices) find(name string) *notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one, ok := n.all[name]; ok && time.Since(one.at) < noticeLife {
		return &one
	}
	return nil
}
