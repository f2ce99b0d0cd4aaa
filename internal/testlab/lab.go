// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// Lab is a set of namespaces, the links between them and the processes started
// in them. Its methods may be called from several goroutines.
type Lab struct {
	t      testing.TB // nil: made by Open
	prefix string

	mu         sync.Mutex
	namespaces []*Namespace
	processes  []*Process
	closed     bool
}

// New makes an empty lab that ends with the test, passed or failed. It requires root.
func New(t testing.TB) *Lab {
	t.Helper()
	RequireRoot(t)
	lab, err := Open("ovx")
	if err != nil {
		t.Fatal(err)
	}
	lab.t = t
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// Open makes an empty lab whose namespaces are named <prefix>-<random>-<name>.
// The caller has to Close it. Methods without an error result panic on failure
// in such a lab.
func Open(prefix string) (*Lab, error) {
	// 32 random bits: two labs of the same moment meet once in four billion,
	// and then creating the namespace fails, since a name is never taken over.
	var random [4]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("name lab: %w", err)
	}
	return &Lab{prefix: prefix + "-" + hex.EncodeToString(random[:])}, nil
}

// ID is the part of the names that tells this lab apart: <prefix>-<random>. It
// suits as a unique name for pins and files, too.
func (l *Lab) ID() string { return l.prefix }

// Close stops the processes that the lab started and removes its namespaces with
// all links in them. It goes on after errors, returns all of them, and may be
// called twice.
func (l *Lab) Close() error {
	l.mu.Lock()
	processes, namespaces := l.processes, l.namespaces
	l.processes, l.namespaces, l.closed = nil, nil, true
	l.mu.Unlock()
	for i := len(processes) - 1; i >= 0; i-- {
		processes[i].Stop()
	}
	var failed []error
	for i := len(namespaces) - 1; i >= 0; i-- {
		failed = append(failed, namespaces[i].remove())
	}
	return errors.Join(failed...)
}

// check ends the test, or panics in a lab without one.
func (l *Lab) check(err error) {
	if err == nil {
		return
	}
	if l.t == nil {
		panic(err)
	}
	l.t.Helper()
	l.t.Fatal(err)
}
