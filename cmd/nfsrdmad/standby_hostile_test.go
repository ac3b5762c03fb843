package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
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
