package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// runDoctor examines a server, and returns the last finding of each check and whether any
// check failed. A long call may take largeTime.
func runDoctor(t *testing.T, largeTime time.Duration, operand string, flags ...string) (found map[string]doctor.Finding, failed bool) {
	t.Helper()
	return runDoctorAt(t, time.Now, largeTime, operand, flags...)
}

// runDoctorAt is diagnose by another clock of this host.
func runDoctorAt(t *testing.T, now func() time.Time, largeTime time.Duration, operand string, flags ...string) (found map[string]doctor.Finding, failed bool) {
	t.Helper()
	a := newApp(io.Discard, io.Discard)
	defer a.closeSessions()
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.addFlags(set)
	require.NoError(t, set.Parse(append([]string{"--timeout=30s"}, flags...)))
	e := &examination{mountCommand: &mountCommand{app: a}, largeTimeout: largeTime, now: now}
	require.NoError(t, e.parseOperand(operand))
	found = make(map[string]doctor.Finding)
	for _, f := range e.examineServer(t.Context()) {
		found[f.Check] = f
		failed = failed || f.Grade == doctor.Fail
		assert.Equal(t, f.Grade == doctor.OK, f.Remedy == "", f)
	}
	return found, failed
}

// assertFinding asserts the finding of one check.
func assertFinding(t *testing.T, found map[string]doctor.Finding, check string, g doctor.Grade, what, remedy string) {
	t.Helper()
	f := found[check]
	assert.Equal(t, g, f.Grade, "%s: %v", check, found)
	assert.Contains(t, f.Found, what, check)
	assert.Contains(t, f.Remedy, remedy, check)
}

// TestDoctor examines a healthy server, and then breaks one thing after another.
func TestDoctor(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		r := startTestServerAt(t, "127.0.0.1:20049")
		writeFile(t, randomBytes(1<<18, 1), r.dir, "f")
		found, failed := runDoctor(t, time.Minute, "127.0.0.1:/x")
		assert.False(t, failed, found)
		for check, what := range map[string]string{
			"nfs-rdma": "is open", "nfs-tcp": "is closed", "rpcbind": "is closed", "mpa": "revision 2", "private-data": "4096 bytes", "versions": "versions 3",
			"mount": "MOUNT answers (RDMA", "locks": "at the server", "export": "may mount /x, sec=sys", "large-calls": "calls of 98304 bytes arrive, and replies of 98304",
		} {
			assertFinding(t, found, check, doctor.OK, what, "")
		}

		_, failed = runDoctor(t, time.Minute, "127.0.0.1")
		assert.False(t, failed)

		r.hideNLM.Store(true)
		past := func() time.Time { return time.Now().Add(-time.Hour) }
		require.NoError(t, os.Chmod(r.dir, 0o755))
		found, failed = runDoctorAt(t, past, time.Minute, "nfs://127.0.0.1/x")
		assert.False(t, failed, "nothing prevents mounting")
		assertFinding(t, found, "locks", doctor.Warn, "on this host only", "start its lock manager")
		assertFinding(t, found, "server-clock", doctor.Warn, "ahead of this host's: /x", "timedatectl")

		found, failed = runDoctor(t, time.Minute, "127.0.0.1:/nosuch")
		assert.True(t, failed)
		assertFinding(t, found, "export", doctor.Fail, "no export holds /nosuch", "the server exports /x")

		for rule, way := range map[string]string{"--dport": "to the server", "--sport": "from the server"} {
			nstest.Script(t, "iptables -I INPUT -p tcp "+rule+" 20049 -m length --length 3000: -j DROP")
			found, _ = runDoctor(t, time.Second, "127.0.0.1:/x")
			assertFinding(t, found, "large-calls", doctor.Fail, "short messages arrive, and long ones "+way+" do not: packets as long as the MTU of lo, 65536 bytes", "ip link set dev lo mtu")
			nstest.Script(t, "iptables -F INPUT")
		}

		r.stop()
		found, _ = runDoctor(t, time.Second, "127.0.0.1:/x")
		assertFinding(t, found, "nfs-rdma", doctor.Fail, "nothing listens", "start nfsrdmad there")
		nstest.Script(t, "iptables -A INPUT -p tcp --dport 20049 -j REJECT; iptables -A INPUT -p tcp --dport 111 -j REJECT")
		found, _ = runDoctor(t, time.Second, "127.0.0.1:/x")
		assertFinding(t, found, "nfs-rdma", doctor.Fail, "the server's own firewall rejects", "permit TCP port 20049")
		assertFinding(t, found, "rpcbind", doctor.Warn, "the server's own firewall rejects", "permit TCP port 111")
		found, _ = runDoctor(t, time.Second, "127.0.0.1:/x", "--proto=tcp")
		assertFinding(t, found, "nfs-tcp", doctor.Fail, "nothing listens", "nfsrdmad: --tcp")
		assertFinding(t, found, "nfs-rdma", doctor.Warn, "rejects", "")
	})
}

// TestDoctorName breaks the name service.
func TestDoctorName(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		for name, text := range map[string]string{"hosts": "127.0.0.1 server\n::1 server\n", "resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "hosts: files dns\n"} {
			own := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(own, []byte(text), 0o644))
			require.NoError(t, unix.Mount(own, "/etc/"+name, "", unix.MS_BIND, ""))
		}
		l, err := net.Listen("tcp", "127.0.0.1:20049")
		require.NoError(t, err)
		defer l.Close()
		found, _ := runDoctor(t, time.Second, "server", "--timeout=1s")
		assertFinding(t, found, "name", doctor.OK, "server is ", "")
		assert.Contains(t, found["name"].Found, "127.0.0.1")
		assert.Contains(t, found["name"].Found, "::1")
		found, _ = runDoctor(t, time.Second, "other.example")
		assertFinding(t, found, "name", doctor.Fail, "resolve: the name service does not respond", "/etc/resolv.conf")
		assert.NotContains(t, found, "nfs-rdma")
	})
}

// TestDoctorStrangers examines programs that are not NFS servers, and old servers.
func TestDoctorStrangers(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without nfsrdma-gss
	checkLeaks(t)
	only, _ := startNFS4Server(t, answerOnlyNFS4)
	soon := []string{"--timeout=1s"}
	for _, tt := range []struct {
		name, addr, check string
		grade             doctor.Grade
		want, remedy      string
		flags             []string
	}{
		{"silent", listenTCP(t, readUntilClosed), "mpa", doctor.Fail, "accepted the connection but does not respond", otherPortRemedy, soon},
		{"HTTP", listenTCP(t, replyText("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")), "mpa", doctor.Fail, "is not an RDMA service", otherPortRemedy, nil},
		{"no RPC", listenTCP(t, acceptMPASilently(t)), "nfs", doctor.Fail, "replies to no call", "restart it", soon},
		{"no private data", startOldServer(t, exports.Options{NoRootSquash: true, Insecure: true}), "private-data", doctor.Warn, "messages longer than 1024 bytes", "update the server", nil},
		{"version 4", only, "versions", doctor.Fail, "only NFS versions 4.1, 4.2", "--vers 3,4.1,4.2", nil},
		{"Kerberos", startOldServer(t, exports.Options{Sec: exports.Secure(exports.Rights{}, exports.FlavorKrb5)}), "export", doctor.Fail, "mount none", "add this host", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, failed := runDoctor(t, time.Minute, tt.addr, tt.flags...)
			assertFinding(t, found, tt.check, tt.grade, tt.want, tt.remedy)
			assert.Equal(t, tt.grade == doctor.Fail, failed, found)
		})
	}
}

// startOldServer starts an NFS server that sends no private data.
func startOldServer(t *testing.T, o exports.Options) (addr string) {
	quiet := slog.New(slog.DiscardHandler)
	nfs, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{}), Clients: exports.Everyone(o)}}, Log: quiet})
	require.NoError(t, err)
	mux := &oncrpc.Mux{}
	nfs.Register(mux)
	l, err := iwarp.Open(iwarp.Config{}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rpcrdma.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(fakeOldListener{l}) }()
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(now)
		assert.NoError(t, <-ended)
	})
	return l.Addr().String()
}

// A fakeOldListener neither reads nor sends private data.
type fakeOldListener struct{ rdma.Listener }

func (l fakeOldListener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	r, err := l.Listener.Accept(ctx)
	return fakeOldRequest{r}, err
}

type fakeOldRequest struct{ rdma.ConnRequest }

func (r fakeOldRequest) PrivateData() []byte { return nil }

func (r fakeOldRequest) Accept(cc rdma.ConnConfig) (rdma.Conn, error) {
	cc.PrivateData = nil
	return r.ConnRequest.Accept(cc)
}

// TestDoctorUnlisted has a server that lists no exports to a client without TLS or Kerberos.
func TestDoctorUnlisted(t *testing.T) {
	r := newTestServer(t, func(s *rpcrdma.Server, _ *iwarp.Config, _ *nfsserver.Config) {
		s.Handler = fakeUnlistedService{s.Handler}
	})
	found, failed := runDoctor(t, time.Minute, r.addr)
	assert.False(t, failed, found)
	assertFinding(t, found, "export", doctor.Warn, "the server does not list its exports: ", "xprtsec=tls")
	assert.Contains(t, found["export"].Found, "AUTH_TOOWEAK")
}

type fakeUnlistedService struct{ oncrpc.Service }

func (u fakeUnlistedService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if word := func(i int) uint32 { return binary.BigEndian.Uint32(req.Msg[4*i:]) }; word(3) == mount3.Program && word(5) == mount3.ProcExport {
		rep.Head = rpcmsg.AppendAuthError(rep.Head, word(0), rpcmsg.AuthTooWeak)
		return true
	}
	return u.Service.Serve(ctx, req, rep)
}

// TestDoctorCommand checks the command's output and exit status.
func TestDoctorCommand(t *testing.T) {
	checkLeaks(t)
	status, out, stderr := runCommand(t, "doctor", "--json", closedAddr(t))
	assert.Equal(t, cli.ExitError, status)
	assert.Empty(t, stderr)
	var list []doctor.Finding
	require.NoError(t, json.Unmarshal([]byte(out), &list), out)
	assert.Equal(t, "fuse", list[0].Check)
	status, out, _ = runCommand(t, "doctor", closedAddr(t))
	assert.Equal(t, cli.ExitError, status)
	assert.Regexp(t, `(?m)^fail  NFS on RDMA at 127\.[\d.]+:\d+ is closed: .*: start nfsrdmad there`, out)
	host, port, err := net.SplitHostPort(closedAddr(t))
	require.NoError(t, err)
	_, out, _ = runCommand(t, "doctor", host+":/x", "-o", "ro,tcp,port="+port)
	assert.Contains(t, out, "fail  NFS over TCP at "+host+":"+port+" is closed", "by the options of a mount")
	for args, want := range map[string]string{"h/e": "is not a server", "nfs://h:x/": "is not a port", "h:/e -o v4.2": "v4.2", "h:/e -o port=x": "port"} {
		status, _, stderr = runCommand(t, append([]string{"doctor"}, strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, want)
	}
}

// TestDoctorTLS has a TLS server with a certificate from an authority that this host does
// not know, and an export that requires mutual TLS.
func TestDoctorTLS(t *testing.T) {
	r := newTCPTestServer(t)
	found, failed := runDoctor(t, time.Minute, r.addr, "--proto=tcp")
	assert.False(t, failed, found)
	assertFinding(t, found, "tls", doctor.Warn, "name its authority with tls-ca=", "xprtsec=")
	found, _ = runDoctor(t, time.Minute, r.addr, "--proto=tcp", r.mutual[2], r.mutual[3])
	assertFinding(t, found, "tls", doctor.OK, "xprtsec=tls of mounts, encrypt", "")
	found, failed = runDoctor(t, time.Minute, "nfs://"+r.addr+"/m", "--proto=tcp")
	assert.True(t, failed)
	assertFinding(t, found, "export", doctor.Fail, "MOUNT: ", "")
	found, failed = runDoctor(t, time.Minute, "nfs://"+r.addr+"/m", append(r.mutual, "--proto=tcp")...)
	assert.False(t, failed, found)
	assert.NotContains(t, found, "tls", "the connections use TLS already")
}
