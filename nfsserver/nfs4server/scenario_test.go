package nfs4server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4/nfs4test"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// serveLoopback serves a file system in memory over TCP.
func serveLoopback(t *testing.T, lease time.Duration) *nfs4test.Server {
	return serveLoopbackFS(t, lease, mem.New(mem.Options{Size: 1 << 30}))
}

// serveLoopbackFS serves a file system over TCP, which no other program changes.
func serveLoopbackFS(t *testing.T, lease time.Duration, fs vfs.FS) *nfs4test.Server {
	return serveLoopbackWith(t, lease, fs, exports.Options{NoRootSquash: true, Insecure: true, Exclusive: true})
}

func serveLoopbackWith(t *testing.T, lease time.Duration, fs vfs.FS, options exports.Options) *nfs4test.Server {
	start := time.Now()
	now := func() time.Duration { return time.Since(start) }
	state := nfs4state.New(WithFiles(nfs4state.Config{Now: now, Epoch: 7, Lease: lease}))
	r, err := exportset.New(exportset.Config{
		Exports: []exportset.Export{{
			Path: "/x", FS: fs, Clients: exports.Everyone(options),
		}, newReferralExport(t, "/far/away", nfs4test.Places)},
		Holders: recall.New(recall.Config{Now: now, Pause: time.Second}), DefersChange: state.DefersChange,
	})
	require.NoError(t, err)
	mux := new(oncrpc.Mux)
	New(Config{Exports: r, State: state, Lease: lease, WriteDelegations: true}).Register(mux)
	replies := replay.New(mux, replay.Config{Keep: func(_ rpcmsg.Procedure, msg []byte) bool { return nfs4.Once(msg) }})
	server := &oncrpc.Server{Handler: replies, Log: slog.New(slog.DiscardHandler)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		assert.NoError(t, server.Shutdown(ctx))
		assert.NoError(t, <-done)
	})
	return &nfs4test.Server{
		Dial: func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		DialFrom: func(host byte) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
			return d.Dial("tcp", l.Addr().String())
		},
		Path: []string{"x"}, Referral: []string{"far", "away"}, Name: "loopback", Lease: lease,
	}
}

// shortLeases are servers with leases of d, 4*d and 16*d.
func shortLeases(t *testing.T, d time.Duration) []*nfs4test.Server {
	return []*nfs4test.Server{serveLoopback(t, d), serveLoopback(t, 4*d), serveLoopback(t, 16*d)}
}

// runOn runs a scenario on one server after another until it passes. On a busy
// machine the calls before a wait may take longer than a short lease; a
// fault shows with every lease.
func runOn(t *testing.T, sc nfs4test.Scenario, servers ...*nfs4test.Server) {
	for i, s := range servers {
		failures := sc.Run(s)
		if len(failures) == 0 {
			return
		}
		report := t.Logf
		if i == len(servers)-1 {
			report = t.Errorf
		}
		for _, failure := range failures {
			report("with a lease of %v: %s\n%s", s.Lease, sc.By, failure)
		}
	}
}

// newReferralExport returns an export with exports(5) options.
func newReferralExport(t *testing.T, path, options string) exportset.Export {
	f, err := exports.Parse("exports", []byte(path+" *(rw,insecure,no_root_squash,"+options+")"))
	require.NoError(t, err)
	return exportset.Export{Path: path, FS: mem.New(mem.Options{Size: 1 << 20}), Clients: f.Exports[0].Clients}
}

// TestScenarios runs the requests that clients may send against the standard's text, with minor
// version 1, and with 2 without the scenarios for large numbers. It runs scenarios that wait
// for a lease to expire on a server with a short one.
//
// R8276-6-1, R8276-8.1-2, R8276-8.2.1-1, R8276-8.4-1, R8276-8.4-2,
// R8276-8.4.1-1, R8276-8.4.1-2, R8276-8.4.2-2, R8276-8.4.2-3, R8276-8.4.2-4,
// R8276-8.4.2-5, R8276-8.4.2-6, R8276-8.4.3-1, R8276-8.4.3-2, R8276-8.4.3-4,
// R8276-8.4.4-1, R8276-8.5-1, R8276-8.8-1.
//
// R8881-5.8.2.12-1, R8881-11.3-1, R8881-11.3-2, R8881-11.4.1-1, R8881-11.4.1-2,
// R8881-11.4.1-3, R8881-11.4.2-1, R8881-11.4.2-2, R8881-11.16-1, R8881-11.16-2.
func TestScenarios(t *testing.T) {
	for minor := nfs4.Minor1; minor <= nfs4.Minor2; minor++ {
		s, hogged := serveLoopback(t, 40*time.Second), serveLoopback(t, 40*time.Second)
		quick := shortLeases(t, 300*time.Millisecond)
		for _, on := range append(quick, s, hogged) {
			on.Minor = minor
		}
		t.Run(fmt.Sprint("4.", minor), func(t *testing.T) {
			for _, sc := range nfs4test.All() {
				if minor < sc.Since || minor > nfs4.Minor1 && (sc.Heavy || sc.Hostile) {
					continue
				}
				t.Run(sc.Name, func(t *testing.T) {
					switch {
					case sc.Slow:
						t.Parallel()
						runOn(t, sc, quick...)
					case sc.Hostile:
						runOn(t, sc, hogged)
					default:
						runOn(t, sc, s)
					}
				})
			}
		})
	}
}

// TestSharedScenarios runs the delegation scenarios on a file system that host processes change
// too: each delegation has a host lease.
func TestSharedScenarios(t *testing.T) {
	fs, _ := newACLDir(t)
	s := serveLoopbackWith(t, 40*time.Second, fs, exports.Options{NoRootSquash: true, Insecure: true})
	for s.Minor = nfs4.Minor1; s.Minor <= nfs4.Minor2; s.Minor++ {
		ran := 0
		for _, sc := range nfs4test.All() {
			if sc.Slow || s.Minor < sc.Since || !strings.Contains(sc.Name, "delegation") && !strings.Contains(sc.By, "CB_GETATTR") {
				continue
			}
			ran++
			t.Run(sc.Name, func(t *testing.T) {
				for _, failure := range sc.Run(s) {
					t.Errorf("%s\n%s", sc.By, failure)
				}
			})
		}
		assert.Greater(t, ran, 15)
	}
}
