package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/loadgen"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
)

// benchConns are the connections of bench. The first one belongs to the app's session and
// is not in extra.
type benchConns struct {
	active       []loadgen.Link
	extra        []*session
	nfs4Sessions []*nfs4client.Session // active and idle ones
}

// dialers is the maximum number of concurrent connection attempts.
const dialers = 16

// dialBenchConns opens the connections in addition to r's own.
func (a *app) dialBenchConns(ctx context.Context, r remote, o *benchOptions) (*benchConns, error) {
	ls := &benchConns{active: []loadgen.Link{r.benchLink(r.fs)}}
	var mu sync.Mutex
	var first error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, dialers)
	var wg sync.WaitGroup
	for i := range o.connections - 1 + o.idle {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s, fs, err := a.dialExtra(ctx, r, i < o.connections-1)
			mu.Lock()
			defer mu.Unlock()
			if s != nil {
				ls.extra = append(ls.extra, s)
			}
			switch {
			case err != nil && first == nil: // later errors are consequences of the first
				first = err
				cancel(err)
			case err == nil && i < o.connections-1:
				ls.active = append(ls.active, s.benchLink(fs))
			}
		})
	}
	wg.Wait()
	return ls, first
}

// benchLink returns a loadgen.Link for calls to an export, with its security flavor, or for
// calls to no export if fs is nil.
func (s *session) benchLink(fs *nfsclient.FS) loadgen.Link {
	if fs == nil {
		return loadgen.Link{Client: s.nfs}
	}
	return loadgen.Link{Client: fs.Client(), FS: fs}
}

// dialExtra opens another connection to r's server. If use is set, it also opens r's
// export there.
func (a *app) dialExtra(ctx context.Context, r remote, use bool) (*session, *nfsclient.FS, error) {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	s, err := a.connect(within, r.server, a.commandConfig())
	if err != nil || !use || r.fs == nil {
		return s, nil, err
	}
	fs, _, err := s.openExport(within, r.path)
	return s, fs, err
}

// closeAll closes all connections except the first.
func (ls *benchConns) closeAll(a *app) {
	var wg sync.WaitGroup
	for _, s := range ls.extra {
		wg.Go(s.close)
	}
	for _, s := range ls.nfs4Sessions {
		wg.Go(func() { a.closeNFS4(context.Background(), s) })
	}
	wg.Wait()
}

// dialNFS4Conns opens the connections for NFSv4, each with its own session.
func (a *app) dialNFS4Conns(ctx context.Context, o *benchOptions, minor uint32) (*benchConns, error) {
	if len(a.sec) > 0 && !slices.Contains(a.sec, "sys") {
		return nil, errors.New("krb5 is for NFSv3 only: omit --sec or --vers")
	}
	ls := new(benchConns)
	var mu sync.Mutex
	var first error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, dialers)
	var wg sync.WaitGroup
	for i := range o.connections + o.idle {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s, err := a.dialNFS4(ctx, o.urls[0].server, minor)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if first == nil { // later errors are consequences of the first
					first = err
					cancel(err)
				}
				return
			}
			ls.nfs4Sessions = append(ls.nfs4Sessions, s)
			if i < o.connections {
				ls.active = append(ls.active, loadgen.Link{Session: s})
			}
		})
	}
	wg.Wait()
	return ls, first
}
