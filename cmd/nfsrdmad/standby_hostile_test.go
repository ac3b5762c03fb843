package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestStandbySignals checks that a reload does not end a host that waits.
func TestStandbySignals(t *testing.T) {
	p := newStandbyPair(t)
	a := p.start()
	a.address("tcp")
	b := p.start()
	b.awaitWatching()
	b.signal(unix.SIGHUP)
	b.signal(unix.SIGUSR1)
	a.signal(unix.SIGTERM)
	b.address("tcp")
	b.signal(unix.SIGTERM)
	assert.Equal(t, cli.ExitOK, b.wait(), b.log())
}

// TestStandbyTakeOverFails checks that a host that cannot serve says so, and releases the directory: the
// next host serves at once, and needs no fence.
func TestStandbyTakeOverFails(t *testing.T) {
	for _, name := range []string{"handle.key", "layout"} {
		p := newStandbyPair(t)
		broken := filepath.Join(p.state, name)
		require.NoError(t, os.WriteFile(broken, []byte("x\n"), 0o600))
		a := p.start()
		assert.Equal(t, cli.ExitError, a.wait())
		beat, err := os.ReadFile(filepath.Join(p.state, "beat"))
		require.NoError(t, err)
		assert.Contains(t, string(beat), `"state":"released"`, a.log())
		require.NoError(t, os.Remove(broken))
		p.start("--fence", "false").address("tcp")
	}
}

// TestStandbyReadOnly checks that a host without a fence says so.
func TestStandbyReadOnly(t *testing.T) {
	p := newStandbyPair(t)
	p.writeExports("ro,insecure,fsid=7")
	a := p.start("--standby=read-only", "--fence", "")
	line := <-a.ready
	assert.Contains(t, line, " standby=read-only ")
	assert.Contains(t, a.log(), "none (read-only standby, without a fence)")
}

// TestStandbyRejects checks what keeps a host from waiting.
func TestStandbyRejects(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*standbyPair)
		args    []string
		status  int
		want    string
	}{
		"blank fence": {nil, []string{"--fence", " "}, cli.ExitUsage, "--fence is blank: name a command"},
		"open directory": {
			func(p *standbyPair) { require.NoError(t, os.Chmod(p.state, 0o770)) },
			[]string{"--fence", "true"},
			cli.ExitError, "can be written by other users, who could take over or have a host fenced: chmod 0700 ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newStandbyPair(t)
			if c.prepare != nil {
				c.prepare(p)
			}
			status, _, stderr := runCommand(t, p.args(append([]string{"--standby", "--control", ""}, c.args...)...)...)
			assert.Equal(t, c.status, status)
			assert.Contains(t, stderr, c.want)
			assert.NoFileExists(t, filepath.Join(p.state, "beat"))
		})
	}
}

// TestStandbySockets checks that a host rejects sockets that listen before it serves.
func TestStandbySockets(t *testing.T) {
	p := newStandbyPair(t)
	socket, _ := newListenerFile(t)
	d := startAsService(t, "", []string{"tcp"}, []*os.File{socket}, "--state", p.state, "--exports", p.exports, "--standby", "--fence", "true")
	text, err := io.ReadAll(d.log)
	require.NoError(t, err)
	assert.Contains(t, string(text), `a socket unit has passed a socket named "tcp", which listens while this host of --standby waits`)
	_ = d.cmd.Wait()
	assert.Equal(t, cli.ExitError, d.cmd.ProcessState.ExitCode())
}

// TestStateTenure checks that no file in the state directory is replaced after the end of a tenure, also
// if it ends while the new content is being written.
func TestStateTenure(t *testing.T) {
	word := tenure.Now() + int64(time.Hour)
	s := &stateDir{dir: t.TempDir(), tenure: tenure.New(&word)}
	name := filepath.Join(s.dir, "x")
	require.NoError(t, s.replaceFile(name, []byte("before")))
	s.tenure.End()
	assert.ErrorIs(t, s.replaceFile(name, []byte("late")), tenure.ErrOver)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "before", string(got))
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestStandbyAfterProbe checks that hosts on a file system that fences serve in turn without a command,
// after the test of nfsrdmad probe --late, by the record that it has written. A host whose file system
// hangs has closed its sockets when the next one serves, although the kernel does not end its process.
func TestStandbyAfterProbe(t *testing.T) {
	t.Parallel() // the test waits for times
	nstest.Run(t, func(t *testing.T) {
		fs := clusterfs.Start(t, clusterfs.Options{Fences: true})
		for _, dir := range []string{"state", "data"} {
			require.NoError(t, os.Mkdir(filepath.Join(fs.Backing, dir), 0o700))
		}
		ha, hb := fs.Mount("a"), fs.Mount("b")
		a := startProbe(t, "a", filepath.Join(ha.Dir, "state"), "--late", "--silence=8s", "--cut", signalCommand(t, "STOP", ha.PID), "--restore", signalCommand(t, "CONT", ha.PID))
		a.awaitText(t, "now run on the other host")
		b := startProbe(t, "b", filepath.Join(hb.Dir, "state"), "--late")
		_, code, _ := strings.Cut(a.awaitText(t, "mount the file system here anew"), "on host b: ")
		_, err := io.WriteString(b.stdin, code[:6]+"\n")
		require.NoError(t, err)
		for _, p := range []*probeProc{a, b} {
			status, _, errs := p.wait()
			require.Zero(t, status, errs)
		}

		hc := fs.Mount("c")
		var hosts []*standbyHost
		addrs := map[string]string{}
		var client *oncrpc.TCPClient
		var root nfs3.FH
		for _, dir := range []string{hc.Dir, hb.Dir} {
			p := &standbyPair{t: t, state: filepath.Join(dir, "state"), data: filepath.Join(dir, "data"), exports: filepath.Join(t.TempDir(), "exports")}
			p.writeExports("rw,insecure,no_root_squash,fsid=7")
			hosts = append(hosts, p.start("--fence", "", "--tenure-time", "4s")) // beats of a busy machine take longer than of 1 s
			if len(hosts) == 1 {
				line := <-hosts[0].ready
				for _, transport := range []string{"tcp", "rdma"} {
					addrs[transport] = (&testDaemon{ready: line}).transportAddr(t, transport)
				}
				client, root = p.dialRoot(addrs["tcp"])
			}
		}
		hosts[1].awaitWatching()
		serving := hosts[0].status(func(d *report.Status) bool { return !d.Standby.Waiting })
		assert.Contains(t, serving.Standby.Fence, clusterfs.Kind+" rejects late writes (tested ")
		hc.Stop()
		hosts[1].address("tcp")
		for _, addr := range addrs {
			_, err := net.Dial("tcp", addr)
			require.ErrorIs(t, err, unix.ECONNREFUSED)
		}
		_, err = makeDir(t, client, root, "late")
		assert.ErrorContains(t, err, "connection") // was reset, or closed while idle
		assert.NoDirExists(t, filepath.Join(fs.Backing, "data", "late"))
		hosts[1].signal(unix.SIGTERM)
		assert.Equal(t, cli.ExitOK, hosts[1].wait())
		hc.Continue() // the kernel ends no thread that waits for a FUSE server
		assert.Equal(t, exitTenure, hosts[0].wait(), hosts[0].log())
	})
}
