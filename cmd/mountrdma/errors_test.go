package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// sentence runs the program, which must fail in time with one sentence, and
// returns the sentence.
func sentence(t *testing.T, args ...string) string {
	t.Helper()
	start := time.Now()
	got := refused(t, args...)
	assert.Less(t, time.Since(start), defaultTimeout)
	assert.Equal(t, 1, strings.Count(got, "\n"), got)
	words, ok := strings.CutPrefix(got, "mountrdma: ")
	assert.True(t, ok, got)
	return strings.TrimSuffix(words, "\n")
}

const (
	quick = "--timeout=400ms"
	wrong = "; " + otherPort
)

func TestCannotConnect(t *testing.T) {
	guard(t)
	stopped := listenTCP(t, func(net.Conn) {})
	_, port, _ := net.SplitHostPort(stopped)

	web := &http.Server{Handler: http.NotFoundHandler()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { web.Close() })

	nfsTCP := &oncrpc.Server{Handler: &oncrpc.Mux{}, Log: slog.New(slog.DiscardHandler)}
	l2, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = nfsTCP.Serve(l2) }()
	t.Cleanup(func() { _ = nfsTCP.Shutdown(context.Background()) })

	for _, tt := range []struct{ name, addr, want string }{
		{"stopped", later(t), refusal},
		{"no such host", "nosuch.invalid:" + port, "resolve: "},
		{"hole", blackhole(t), "TCP connect: no answer: the host is down, or something on the way drops packets; start the host, correct the address, or open the port in its firewall"},
		{"hangs up", listenTCP(t, swallow), "MPA start-up: the other end hung up without an answer, as a program without RDMA does" + wrong},
		{"silent", listenTCP(t, silent), "MPA start-up: the program at that port accepted the connection and stays silent: it hangs, or is no RDMA service" + wrong},
		{"HTTP", l.Addr().String(), "MPA start-up: the program at that port accepted the connection and stays silent: it hangs, or is no RDMA service" + wrong},
		{"HTTP that answers", listenTCP(t, say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")), "MPA start-up: the program at that port is no RDMA service" + wrong},
		{"NFS over TCP", l2.Addr().String(), "MPA start-up: the other end hung up without an answer, as a program without RDMA does" + wrong},
		{"reject", listenTCP(t, say(reply(mpa.Frame{Reply: true, Reject: true, Rev: 2, HasEnhanced: true}))), "MPA start-up: the server refused the connection; see its log for the reason: it may be full, or not serve NFS on RDMA at this port"},
		{"no RPC", listenTCP(t, mute(t)), "RPC: the server accepted the connection, but answers no call; see whether it hangs, and restart it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"ls", scheme + tt.addr + "/x"}, {"info", tt.addr}} {
				start := time.Now()
				got := sentence(t, append(args, quick)...)
				assert.Less(t, time.Since(start), 2*time.Second, "nobody waits for a goodbye")
				assert.True(t, strings.HasPrefix(got, tt.addr+": "+tt.want), got)
			}
		})
	}
}

// swallow reads some bytes and closes the connection.
func swallow(c net.Conn) { _, _ = c.Read(make([]byte, 100)) }

// silent reads until the peer closes the connection.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// say answers with some bytes, and then is silent.
func say(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 100))
		_, _ = io.WriteString(c, text)
		silent(c)
	}
}

// reply returns a start-up frame.
func reply(f mpa.Frame) string { return string(f.AppendTo(nil)) }

// mute accepts by MPA, and then neither answers nor closes the connection.
func mute(t *testing.T) func(net.Conn) {
	accept := say(reply(mpa.Frame{Reply: true, Rev: 2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 1, ORD: 1}}))
	return func(c net.Conn) {
		accept(c)
		<-t.Context().Done()
	}
}

// blackhole returns an address from which no answer comes: its listener's queue
// is full.
func blackhole(t *testing.T) (addr string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	sa, err := unix.Getsockname(fd)
	require.NoError(t, err)
	a := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*unix.SockaddrInet4).Port}
	for range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		c, err := new(net.Dialer).DialContext(ctx, "tcp", a.String())
		cancel()
		if err != nil {
			return a.String()
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue takes ever more")
	return ""
}

// program serves one version of programs over RDMA.
func program(t *testing.T, vers uint32, programs ...uint32) (addr string) {
	mux := &oncrpc.Mux{}
	for _, prog := range programs {
		mux.Register(prog, vers, unavailable{})
	}
	srv := &rpcrdma.Server{Handler: mux}
	l, err := iwarp.Open(iwarp.Config{}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-done)
	})
	return l.Addr().String()
}

type unavailable struct{}

func (unavailable) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
	return oncrpc.ErrProcUnavail
}

func TestWrongServer(t *testing.T) {
	guard(t)
	for _, tt := range []struct {
		name, addr, want string
	}{
		{"no NFS", program(t, 1, 400000), "NFS: the server speaks RPC, but not NFS; correct the port"},
		{"NFS 4 only", program(t, 4, nfs3.Program), "NFS: the server has NFS versions 4 to 4 only, this client has version 3; turn version 3 on there (knfsd: vers3=y in /etc/nfs.conf)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.addr+": "+tt.want, sentence(t, "ls", scheme+tt.addr+"/x"))
		})
	}
	addr := program(t, 3, nfs3.Program) // no MOUNT
	got := sentence(t, "ls", scheme+addr+"/x?mountport=1")
	assert.Contains(t, got, addr+": MOUNT: no MOUNT service found on 127.0.0.1 (TCP 127.0.0.1:1: ")
	assert.Contains(t, got, "connection refused): start mountd there, or correct mountport and mounthost")
	assert.Contains(t, must(t, "info", addr+"?mountport=1"), "MOUNT                "+addr+": MOUNT: no MOUNT service found", "all the rest is known")
}

// TestMountBroken checks that the error of a MOUNT service that serves no call
// has the words of the command alone.
func TestMountBroken(t *testing.T) {
	guard(t)
	addr := program(t, 3, nfs3.Program, mount3.Program)
	want := addr + ": MOUNT: MOUNT: oncrpc: the server does not have the procedure; see the log of the server's mountd"
	assert.Equal(t, want, sentence(t, "ls", scheme+addr+"/x"))
}

func TestWrongExport(t *testing.T) {
	r := newRig(t)
	write(t, []byte("x"), r.dir, "d", "f")
	assert.Equal(t, r.addr+": MOUNT: no export holds /y/d; correct the path: the server exports /x", sentence(t, "ls", scheme+r.addr+"/y/d"))
	assert.Equal(t, "f\n", must(t, "ls", r.url+"/d"))
	assert.Equal(t, r.url+"/d/f/g: not a directory (NFS3ERR_NOTDIR)", sentence(t, "ls", r.url+"/d/f/g"))
}

func TestExportForOthers(t *testing.T) {
	r := newRig(t, func(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) {
		c.Exports[0].Clients = []exports.Client{{Host: exports.InNetwork(netip.MustParsePrefix("192.0.2.0/24"))}}
	})
	assert.Equal(t, r.addr+": MOUNT: the server does not let this host or user mount the export of /x/d; ask its administrator to export it to this host (nfsrdmad: --clients)",
		sentence(t, "ls", r.url+"/d"))
}

// hanging returns a filter that makes a server answer no calls of one
// procedure.
func hanging(prog, proc uint32) *func(*oncrpc.Request) bool {
	f := func(req *oncrpc.Request) bool {
		word := func(i int) uint32 { return uint32(req.Msg[4*i+2])<<8 | uint32(req.Msg[4*i+3]) }
		return word(3) == prog&0xffff && word(5) == proc
	}
	return &f
}

// TestLostInUse checks the error if the server is lost in the middle of a copy.
func TestLostInUse(t *testing.T) {
	all := func(*oncrpc.Request) bool { return true }
	for _, tt := range []struct {
		name string
		lose func(*rig)
		want string
	}{
		{"killed", func(r *rig) { r.stop() }, "the server closed it: it was stopped, killed or restarted; run the command again when it is back"},
		{"stuck", func(r *rig) { r.hang.Store(&all) }, "the server is silent: it hangs, or the network is cut; run the command again when it is back (--timeout changes how long to wait)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			for i := range 20 {
				write(t, []byte("x"), r.dir, "t", string(rune('a'+i)))
			}
			reading := *hanging(nfs3.Program, nfs3.ProcRead)
			var first sync.Once
			lost := make(chan struct{})
			hang := func(req *oncrpc.Request) bool {
				if !reading(req) {
					return false
				}
				first.Do(func() {
					go func() {
						defer close(lost)
						tt.lose(r)
					}()
				})
				return true
			}
			r.hang.Store(&hang)
			defer func() { <-lost }()
			assert.Equal(t, r.addr+": connection lost: "+tt.want, sentence(t, "cp", "-r", r.url+"/t", t.TempDir(), quick))
		})
	}
}

// TestSlowCall checks that a call may take longer than --timeout if the server
// is alive.
func TestSlowCall(t *testing.T) {
	r := newRig(t)
	write(t, []byte("x"), r.dir, "f")
	r.hang.Store(hanging(nfs3.Program, nfs3.ProcRead))
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("patience is over"))
	defer cancel()
	var errs strings.Builder
	assert.Equal(t, 1, run(ctx, []string{"cat", r.url + "/f", "--timeout=200ms"}, io.Discard, &errs))
	assert.Equal(t, "mountrdma: patience is over\n", errs.String())
}

// TestInterrupted checks that the end of the context ends waiting commands.
func TestInterrupted(t *testing.T) {
	r := newRig(t)
	write(t, []byte("x"), r.dir, "f")
	r.hang.Store(hanging(nfs3.Program, nfs3.ProcRead))
	for _, args := range [][]string{{"cat", r.url + "/f"}, {"cp", r.url + "/f", t.TempDir()}, {"bench", r.url + "/f", "--block=1"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(os.ErrProcessDone) })
		var errs strings.Builder
		assert.Equal(t, 1, run(ctx, args, io.Discard, &errs))
		assert.Equal(t, "mountrdma: "+os.ErrProcessDone.Error()+"\n", errs.String())
	}
}

// TestForbidden checks that the error names the user of the call.
func TestForbidden(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root: only it can act as others")
	}
	r := newRig(t)
	require.NoError(t, os.Chmod(r.dir, 0o755))
	write(t, []byte("x"), r.dir, "f")
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "f"), 0o640))
	require.NoError(t, os.Chown(filepath.Join(r.dir, "f"), 7, 8))
	assert.Equal(t, r.url+"/f: permission denied (NFS3ERR_ACCES); the call was user 9's, and servers may map root to nobody: --uid and --gid act as others",
		sentence(t, "cat", r.url+"/f", "--uid=9", "--gid=9"))
	assert.Equal(t, "x", must(t, "cat", r.url+"/f", "--uid=7"))
	assert.Equal(t, "x", must(t, "cat", r.url+"/f", "--uid=9", "--gid=8"))
}

// TestMountSilent checks the error of a MOUNT service that takes the call and
// does not answer.
func TestMountSilent(t *testing.T) {
	r := newRig(t)
	r.hang.Store(hanging(mount3.Program, mount3.ProcMnt))
	assert.Equal(t, r.addr+": MOUNT: the service does not answer; see whether the server's mountd hangs, and restart it",
		sentence(t, "ls", r.url, quick))
}
