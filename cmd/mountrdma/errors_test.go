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

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// runForSentence runs the program, which must fail in time with one sentence, and
// returns the sentence.
func runForSentence(t *testing.T, args ...string) string {
	t.Helper()
	start := time.Now()
	got := mustFail(t, args...)
	assert.Less(t, time.Since(start), defaultTimeout)
	assert.Equal(t, 1, strings.Count(got, "\n"), got)
	words, ok := strings.CutPrefix(got, "mountrdma: ")
	assert.True(t, ok, got)
	return strings.TrimSuffix(words, "\n")
}

const (
	quickTimeout  = "--timeout=400ms"
	wrongPortText = "; " + otherPortRemedy
)

func TestCannotConnect(t *testing.T) {
	checkLeaks(t)
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
		{"stopped", closedAddr(t), refusedText},
		{"no such host", "nosuch.invalid:" + port, "resolve: "},
		{"hole", listenFull(t), "TCP connect: no response: the host is down, or a firewall drops packets; start the host, correct the address, or open the port in its firewall"},
		{"hangs up", listenTCP(t, readAndClose), "MPA start-up: the peer closed the connection without a response, as a program without RDMA does" + wrongPortText},
		{"silent", listenTCP(t, readUntilClosed), "MPA start-up: the program at that port accepted the connection but does not respond: it hangs, or is not an RDMA service" + wrongPortText},
		{"HTTP", l.Addr().String(), "MPA start-up: the program at that port accepted the connection but does not respond: it hangs, or is not an RDMA service" + wrongPortText},
		{"HTTP that answers", listenTCP(t, replyText("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")), "MPA start-up: the program at that port is not an RDMA service" + wrongPortText},
		{"NFS over TCP", l2.Addr().String(), "MPA start-up: the peer closed the connection without a response, as a program without RDMA does" + wrongPortText},
		{"reject", listenTCP(t, replyText(encodeFrame(mpa.Frame{Reply: true, Reject: true, Rev: 2, HasEnhanced: true}))), "MPA start-up: the server rejected the connection; see its log for the reason: the connection limit may be reached, or this port does not serve NFS on RDMA"},
		{"no RPC", listenTCP(t, acceptMPASilently(t)), "RPC: the server accepted the connection, but replies to no call; check whether it hangs, and restart it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"ls", scheme + tt.addr + "/x"}, {"info", tt.addr}} {
				start := time.Now()
				got := runForSentence(t, append(args, quickTimeout)...)
				assert.Less(t, time.Since(start), 2*time.Second, "it does not wait for the connection to close gracefully")
				assert.True(t, strings.HasPrefix(got, tt.addr+": "+tt.want), got)
			}
		})
	}
}

// readAndClose reads some bytes and closes the connection.
func readAndClose(c net.Conn) { _, _ = c.Read(make([]byte, 100)) }

// readUntilClosed reads until the peer closes the connection.
func readUntilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// replyText responds with text, and then sends nothing more.
func replyText(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 100))
		_, _ = io.WriteString(c, text)
		readUntilClosed(c)
	}
}

// encodeFrame encodes a start-up frame.
func encodeFrame(f mpa.Frame) string { return string(f.AppendTo(nil)) }

// acceptMPASilently accepts the MPA request, and then neither responds nor closes the connection.
func acceptMPASilently(t *testing.T) func(net.Conn) {
	accept := replyText(encodeFrame(mpa.Frame{Reply: true, Rev: 2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 1, ORD: 1}}))
	return func(c net.Conn) {
		accept(c)
		<-t.Context().Done()
	}
}

// listenFull returns an address that does not respond: its listener's queue
// is full.
func listenFull(t *testing.T) (addr string) {
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
	t.Fatal("the queue does not fill up")
	return ""
}

// servePrograms serves one version of RPC programs over RDMA.
func servePrograms(t *testing.T, vers uint32, programs ...uint32) (addr string) {
	mux := &oncrpc.Mux{}
	for _, prog := range programs {
		mux.Register(prog, vers, fakeUnavailable{})
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

type fakeUnavailable struct{}

func (fakeUnavailable) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
	return oncrpc.ErrProcUnavail
}

func TestWrongServer(t *testing.T) {
	checkLeaks(t)
	for _, tt := range []struct {
		name, addr, want string
	}{
		{"no NFS", servePrograms(t, 1, 400000), "NFS: the server supports RPC, but not NFS; correct the port"},
		{"NFS 4 only", servePrograms(t, 4, nfs3.Program), "NFS: the server supports only NFS versions 4 to 4, and this client needs version 3; enable NFSv3 there (knfsd: vers3=y in /etc/nfs.conf)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.addr+": "+tt.want, runForSentence(t, "ls", scheme+tt.addr+"/x"))
		})
	}
	addr := servePrograms(t, 3, nfs3.Program) // no MOUNT
	got := runForSentence(t, "ls", scheme+addr+"/x?mountport=1")
	assert.Contains(t, got, addr+": MOUNT: no MOUNT service found on 127.0.0.1 (TCP 127.0.0.1:1: ")
	assert.Contains(t, got, "connection refused): start mountd there, or correct mountport and mounthost")
	assert.Contains(t, mustRun(t, "info", addr+"?mountport=1"), "MOUNT                "+addr+": MOUNT: no MOUNT service found", "everything else is known")
}

// TestMountBroken checks that the error for a MOUNT service that serves no call
// has only the command's text.
func TestMountBroken(t *testing.T) {
	checkLeaks(t)
	addr := servePrograms(t, 3, nfs3.Program, mount3.Program)
	want := addr + ": MOUNT: MOUNT: oncrpc: the server does not have the procedure; see the log of the server's mountd"
	assert.Equal(t, want, runForSentence(t, "ls", scheme+addr+"/x"))
}

func TestWrongExport(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("x"), r.dir, "d", "f")
	assert.Equal(t, r.addr+": MOUNT: no export holds /y/d; correct the path: the server exports /x", runForSentence(t, "ls", scheme+r.addr+"/y/d"))
	assert.Equal(t, "f\n", mustRun(t, "ls", r.url+"/d"))
	assert.Equal(t, r.url+"/d/f/g: not a directory (NFS3ERR_NOTDIR)", runForSentence(t, "ls", r.url+"/d/f/g"))
}

func TestExportForOthers(t *testing.T) {
	r := newTestServer(t, func(_ *rpcrdma.Server, _ *iwarp.Config, c *nfsserver.Config) {
		c.Exports[0].Clients = []exports.Client{{Host: exports.NetworkHost(netip.MustParsePrefix("192.0.2.0/24"))}}
	})
	assert.Equal(t, r.addr+": MOUNT: the server does not let this host or user mount the export of /x/d; ask its administrator to export it to this host (nfsrdmad: --clients)",
		runForSentence(t, "ls", r.url+"/d"))
}

// matchProc returns a filter that makes a server reply to no calls of one
// procedure.
func matchProc(prog, proc uint32) *func(*oncrpc.Request) bool {
	f := func(req *oncrpc.Request) bool {
		word := func(i int) uint32 { return uint32(req.Msg[4*i+2])<<8 | uint32(req.Msg[4*i+3]) }
		return word(3) == prog&0xffff && word(5) == proc
	}
	return &f
}

// TestLostInUse checks the error if the server is lost during a copy.
func TestLostInUse(t *testing.T) {
	all := func(*oncrpc.Request) bool { return true }
	for _, tt := range []struct {
		name string
		lose func(*testServer)
		want string
	}{
		{"killed", func(r *testServer) { r.stop() }, "the server closed it: it was stopped, killed or restarted; run the command again when it is back"},
		{"stuck", func(r *testServer) { r.holdCall.Store(&all) }, "the server does not respond: it hangs, or the network is down; run the command again when it is back (--timeout sets the time limit)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newTestServer(t)
			for i := range 20 {
				writeFile(t, []byte("x"), r.dir, "t", string(rune('a'+i)))
			}
			reading := *matchProc(nfs3.Program, nfs3.ProcRead)
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
			r.holdCall.Store(&hang)
			defer func() { <-lost }()
			assert.Equal(t, r.addr+": connection lost: "+tt.want, runForSentence(t, "cp", "-r", r.url+"/t", t.TempDir(), quickTimeout))
		})
	}
}

// TestSlowCall checks that a call may take longer than --timeout if the server
// is alive.
func TestSlowCall(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("x"), r.dir, "f")
	r.holdCall.Store(matchProc(nfs3.Program, nfs3.ProcRead))
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("patience is over"))
	defer cancel()
	var errs strings.Builder
	assert.Equal(t, 1, run(ctx, []string{"cat", r.url + "/f", "--timeout=200ms"}, io.Discard, &errs))
	assert.Equal(t, "mountrdma: patience is over\n", errs.String())
}

// TestInterrupted checks that waiting commands end when the context is canceled.
func TestInterrupted(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("x"), r.dir, "f")
	r.holdCall.Store(matchProc(nfs3.Program, nfs3.ProcRead))
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
	r := newTestServer(t)
	require.NoError(t, os.Chmod(r.dir, 0o755))
	writeFile(t, []byte("x"), r.dir, "f")
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "f"), 0o640))
	require.NoError(t, os.Chown(filepath.Join(r.dir, "f"), 7, 8))
	assert.Equal(t, r.url+"/f: permission denied (NFS3ERR_ACCES); the call was user 9's",
		runForSentence(t, "cat", r.url+"/f", "--uid=9", "--gid=9"))
	assert.Equal(t, "x", mustRun(t, "cat", r.url+"/f", "--uid=7"))
	assert.Equal(t, "x", mustRun(t, "cat", r.url+"/f", "--uid=9", "--gid=8"))
}

// TestMountSilent checks the error for a MOUNT service that receives the call and
// does not reply.
func TestMountSilent(t *testing.T) {
	r := newTestServer(t)
	r.holdCall.Store(matchProc(mount3.Program, mount3.ProcMnt))
	assert.Equal(t, r.addr+": MOUNT: the service does not respond; check whether the server's mountd hangs, and restart it",
		runForSentence(t, "ls", r.url, quickTimeout))
}
