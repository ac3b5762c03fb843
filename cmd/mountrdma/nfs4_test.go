package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// startNFS4Server serves /a/b and /c over NFSv3 and the NFSv4 minor versions. It
// returns the address and the directory of /a/b.
func startNFS4Server(t *testing.T, change ...func(*nfsrdma.ServerConfig)) (addr, dir string) {
	t.Helper()
	checkLeaks(t)
	dir = t.TempDir()
	files, err := posix.Open(dir, posix.Options{})
	require.NoError(t, err)
	everyone := exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})
	cfg := nfsrdma.ServerConfig{
		Exports: []nfsserver.Export{{Path: "/a/b", FS: files, Clients: everyone}, {Path: "/c", FS: files, Clients: everyone}},
		Minors:  []uint32{1, 2}, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := nfsrdma.NewServer(cfg)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.ServeRDMA(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, <-served)
		assert.NoError(t, files.Close())
	})
	return l.Addr().String(), dir
}

// answerOnlyNFS4 makes a server support only NFSv4.
func answerOnlyNFS4(cfg *nfsrdma.ServerConfig) {
	cfg.Wrap = func(next oncrpc.Service) oncrpc.Service { return fakeNFS4Only{next} }
}

// A fakeNFS4Only replies to NFSv3 calls with PROG_MISMATCH.
type fakeNFS4Only struct{ oncrpc.Service }

func (s fakeNFS4Only) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	c, ok := oncrpc.ParseCall(req.Msg)
	if !ok || c.Vers == 4 {
		return s.Service.Serve(ctx, req, rep)
	}
	rep.Head = rpcmsg.AppendAccepted(rep.Head, c.XID, rpcmsg.ProgMismatch)
	rep.Head = append(rep.Head, 0, 0, 0, 4, 0, 0, 0, 4)
	return true
}

// TestInfo4 checks the output of info about NFSv4 servers.
func TestInfo4(t *testing.T) {
	addr, _ := startNFS4Server(t)
	o := decodeObject(t, mustRun(t, "info", addr, "--json"))
	assert.Equal(t, []any{"3", "4.1", "4.2"}, o["versions"])
	v4 := o["nfs4"].(map[string]any)
	assert.ElementsMatch(t, []any{"/a/b", "/c"}, v4["exports"])
	assert.Len(t, v4["server_scope"], 32)
	assert.Equal(t, 64.0, v4["session"].(map[string]any)["slots"])
	assert.Greater(t, v4["lease_seconds"], 1.0)
	text := mustRun(t, "info", addr)
	assert.Contains(t, text, "NFS versions         3, 4.1, 4.2\n")
	assert.Contains(t, text, "NFSv4 export         /a/b\n")

	addr, _ = startNFS4Server(t, answerOnlyNFS4, func(cfg *nfsrdma.ServerConfig) { cfg.Minors = []uint32{1} })
	o = decodeObject(t, mustRun(t, "info", addr, "--json"))
	assert.Equal(t, []any{"4.1"}, o["versions"], "R7862-3.3-1")
	assert.NotContains(t, o, "mount")
	assert.NotContains(t, o, "mount_error")
	assert.NotContains(t, mustRun(t, "info", addr), "MOUNT")
}

// TestBench4 measures over NFSv4, and over NFSv3 if it has the operation.
func TestBench4(t *testing.T) {
	addr, dir := startNFS4Server(t)
	writeFile(t, randomBytes(3<<20+5, 1), dir, "f")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	for i := range 5 {
		writeFile(t, randomBytes(4096, 1), dir, "d", fmt.Sprint(i))
	}
	for _, tt := range []struct {
		op, name, vers string
		size           float64 // data bytes per call
	}{
		{"read", "f", "4.2", 1 << 20},
		{"randread", "f", "4.1", 1 << 20},
		{"write", "f", "4.2", 1 << 20},
		{"getattr", "f", "4.2", 0},
		{"readdirplus", "d", "4.2", 0},
		{"open", "d", "4.2", 4096},
		{"open", "d", "3", 4096},
		{"null", "f", "4.2", 0},
	} {
		t.Run(tt.op+" "+tt.vers, func(t *testing.T) {
			o := decodeObject(t, mustRun(t, "bench", scheme+addr+"/a/b/"+tt.name, "--op="+tt.op, "--vers="+tt.vers, "--depth=3", "--connections=2", "--time=20ms", "--json"))
			assert.Greater(t, o["ops"], 5.0)
			assert.Equal(t, o["ops"].(float64)*tt.size, o["bytes"])
		})
	}
	assert.Contains(t, mustFail(t, "bench", scheme+addr+"/a/b/none", "--vers=4.2"), "no such file or directory (NFS4ERR_NOENT)")
	assert.Contains(t, mustFail(t, "bench", scheme+addr+"/a/b/d", "--vers=4.2"), "not a regular file")
	assert.Contains(t, mustFail(t, "bench", scheme+addr+"/a/b/f", "--op=open", "--vers=4.2"), "not a directory")
	assert.Contains(t, mustFail(t, "bench", scheme+addr+"/a/b/f", "--vers=4.2", "--sec=krb5"), "krb5 is for NFSv3 only: omit --sec or --vers")
}

// TestOtherVersions checks the errors for servers that support only another
// version than the requested one.
func TestOtherVersions(t *testing.T) {
	addr, _ := startNFS4Server(t, func(cfg *nfsrdma.ServerConfig) { cfg.Minors = []uint32{} })
	assert.Equal(t, "mountrdma: "+addr+": NFSv4.2: the server supports only NFS versions 3 to 3; use --vers 3, or enable NFSv4 there (nfsrdmad: --vers 3,4.1,4.2)\n",
		mustFail(t, "bench", scheme+addr+"/a/b/f", "--vers=4.2"))
	addr, _ = startNFS4Server(t, answerOnlyNFS4, func(cfg *nfsrdma.ServerConfig) { cfg.Minors = []uint32{1} })
	assert.Contains(t, mustFail(t, "bench", scheme+addr+"/a/b/f", "--vers=4.2"), "but not this minor version; use --vers 4.1 or")
	assert.Contains(t, mustFail(t, "bench", scheme+addr+"/a/b/f"), "measure NFSv4 with --vers 4.2, or enable NFSv3 there")
}

// A fakeStallingService replies to some NFSv4 calls, and to later ones with NFS4ERR_DELAY or
// not at all.
type fakeStallingService struct {
	oncrpc.Service
	answersLeft atomic.Int64 // number of calls to serve
	delay       bool
}

func (s *fakeStallingService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	c, ok := oncrpc.ParseCall(req.Msg)
	switch {
	case !ok, c.Vers != nfs4.Version, s.answersLeft.Add(-1) >= 0:
		return s.Service.Serve(ctx, req, rep)
	case !s.delay:
		<-ctx.Done()
		return false
	}
	var head nfs4.CompoundArgs
	head.Decode(&c.Args)
	op := nfs4.Op(c.Args.Uint32())
	rep.Head = rpcmsg.AppendAccepted(rep.Head, c.XID, rpcmsg.Success)
	rep.Head = (&nfs4.CompoundRes{Status: nfs4.ErrDelay, N: 1}).AppendTo(rep.Head)
	rep.Head = nfs4.AppendOp(rep.Head, op, &nfs4.StatusRes{Status: nfs4.ErrDelay})
	return true
}

// TestInfoOfStubbornServer checks that info ends in time when a server stops replying to
// NFSv4 calls or delays all of them, and that it prints the facts learned so far.
func TestInfoOfStubbornServer(t *testing.T) {
	const dial = 4        // EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE, and GETATTR for the lease time
	const walk = dial + 6 // the two pseudo directories
	for _, answered := range []int64{0, 1, dial, walk, walk + 1} {
		for _, delay := range []bool{false, true} {
			t.Run(fmt.Sprint(answered, delay), func(t *testing.T) {
				want := map[bool]string{false: "replies to no call", true: "delays all calls"}[delay]
				if answered == dial {
					want = map[bool]string{false: "timed out", true: "timed out, while the server postponed SEQUENCE (NFS4ERR_DELAY)"}[delay]
				}
				var s *fakeStallingService
				addr, _ := startNFS4Server(t, func(cfg *nfsrdma.ServerConfig) {
					cfg.Wrap = func(next oncrpc.Service) oncrpc.Service {
						s = &fakeStallingService{Service: next, delay: delay}
						return s
					}
				})
				var o map[string]any
				for limit := 300 * time.Millisecond; ; limit *= 4 { // a busy machine needs longer until the server stops replying
					s.answersLeft.Store(answered)
					start := time.Now()
					o = decodeObject(t, mustRun(t, "info", addr, "--json", "--timeout="+limit.String()))
					assert.Less(t, time.Since(start), limit+5*time.Second)
					said, _ := o["nfs4_error"].(string)
					if strings.Contains(said, want) && answered >= dial == (o["nfs4"] != nil) || limit > 10*time.Second {
						break
					}
				}
				assert.Contains(t, o["versions"], "3")
				assert.Equal(t, answered >= dial, o["nfs4"] != nil)
				assert.Contains(t, o["nfs4_error"], want)
			})
		}
	}
}
