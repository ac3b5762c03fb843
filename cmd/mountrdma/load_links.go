package main

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A link is one connection that bench makes calls on.
type link struct {
	nfs *nfsclient.Client
	fs  *nfsclient.FS // nil where calls are about no object
}

// links are the connections of bench. The first is the session's, and not in
// made.
type links struct {
	busy []link
	made []*session
}

// dialers is how many connections are being made at a time.
const dialers = 16

// links makes the connections beside the one that r has.
func (a *app) links(ctx context.Context, r remote, o *benchOptions) (*links, error) {
	ls := &links{busy: []link{{r.nfs, r.fs}}}
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
			case err != nil && first == nil: // what comes later is an echo of it
				first = err
				cancel(err)
			case err == nil && i < o.connections-1:
				ls.busy = append(ls.busy, link{s.nfs, fs})
			}
		})
	}
	all.Wait()
	return ls, first
}

// another makes one more connection to r's server, and opens r's export on it
// if it will be used.
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

// close ends the connections that were made.
func (ls *links) close() {
	var all sync.WaitGroup
	for _, s := range ls.made {
		all.Go(s.close)
	}
	all.Wait()
}
