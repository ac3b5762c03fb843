package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/loadgen"
	"github.com/nfsrdma/nfsrdma/nfs4client"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// links are the connections of bench. The first is the session's and is not in
// made.
type links struct {
	busy []loadgen.Link
	made []*session
	v4   []*nfs4client.Session // of busy, or idle
}

// dialers bounds the connections being made at a time.
const dialers = 16

// links makes the connections in addition to r's own.
func (a *app) links(ctx context.Context, r remote, o *benchOptions) (*links, error) {
	ls := &links{busy: []loadgen.Link{r.link(r.fs)}}
	var mu sync.Mutex
	var first error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, dialers)
	var all sync.WaitGroup
	for i := range o.connections - 1 + o.idle {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			s, fs, err := a.another(ctx, r, i < o.connections-1)
			mu.Lock()
			defer mu.Unlock()
			if s != nil {
				ls.made = append(ls.made, s)
			}
			switch {
			case err != nil && first == nil: // later errors are consequences of the first
				first = err
				cancel(err)
			case err == nil && i < o.connections-1:
				ls.busy = append(ls.busy, s.link(fs))
			}
		})
	}
	all.Wait()
	return ls, first
}

// link returns a session for calls to an export, by its flavour, or to none if fs is nil.
func (s *session) link(fs *nfsclient.FS) loadgen.Link {
	if fs == nil {
		return loadgen.Link{Client: s.nfs}
	}
	return loadgen.Link{Client: fs.Client(), FS: fs}
}

// another makes a further connection to r's server. It opens r's export there
// if use is set.
func (a *app) another(ctx context.Context, r remote, use bool) (*session, *nfsclient.FS, error) {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	s, err := a.connect(within, r.server, a.brief())
	if err != nil || !use || r.fs == nil {
		return s, nil, err
	}
	fs, _, err := s.open(within, r.path)
	return s, fs, err
}

// close ends the connections in made.
func (ls *links) close(a *app) {
	var all sync.WaitGroup
	for _, s := range ls.made {
		all.Go(s.close)
	}
	for _, s := range ls.v4 {
		all.Go(func() { a.goodbye(context.Background(), s) })
	}
	all.Wait()
}

// links4 makes the connections for version 4, each with a session of its own.
func (a *app) links4(ctx context.Context, o *benchOptions, minor uint32) (*links, error) {
	if len(a.sec) > 0 && !slices.Contains(a.sec, "sys") {
		return nil, errors.New("krb5 is for version 3 only: leave --sec or --vers out")
	}
	ls := new(links)
	var mu sync.Mutex
	var first error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, dialers)
	var all sync.WaitGroup
	for i := range o.connections + o.idle {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			s, err := a.session4(ctx, o.urls[0].server, minor)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if first == nil { // later errors are consequences of the first
					first = err
					cancel(err)
				}
				return
			}
			ls.v4 = append(ls.v4, s)
			if i < o.connections {
				ls.busy = append(ls.busy, loadgen.Link{Session: s})
			}
		})
	}
	all.Wait()
	return ls, first
}
