package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/internal/standby"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// writeRecord writes what probe --late would find out.
func (p *standbyPair) writeRecord(change func(*fencingRecord)) {
	p.t.Helper()
	at, err := mountOf(p.state)
	require.NoError(p.t, err)
	r := fencingRecord{Version: 1, FileSystem: at.Kind, Source: at.Source, Fences: true, Hosts: []string{"a", "b"}, Tested: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
	change(&r)
	b, err := json.Marshal(r)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(p.state, "fencing.json"), b, 0o600))
}

// TestStandbyNeedsFence checks that a standby does not start without a fence, and names the remedy.
func TestStandbyNeedsFence(t *testing.T) {
	const remedy = "test the file system with nfsrdmad probe --late, name a command with --fence, or serve read-only data with --standby=read-only"
	for name, c := range map[string]struct {
		record func(*fencingRecord)
		want   string
	}{
		"no record":       {nil, "rejects late writes of a host whose lock it has given up, and files could be overwritten: " + remedy},
		"no fence":        {func(r *fencingRecord) { r.Fences = false }, "accepts late writes of a host whose lock it has given up (tested 2026-11-30), and files could be overwritten: name a command with --fence, or serve read-only data with --standby=read-only"},
		"another type":    {func(r *fencingRecord) { r.FileSystem = "fuse.mfs" }, "fencing.json is about fuse.mfs from "},
		"another source":  {func(r *fencingRecord) { r.Source = "mfs:9421" }, " from mfs:9421, but the state directory is on "},
		"another version": {func(r *fencingRecord) { r.Version = 2 }, "fencing.json is not a record of this version: run nfsrdmad probe --late again"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newStandbyPair(t)
			if c.record != nil {
				p.writeRecord(c.record)
			}
			status, stdout, stderr := runCommand(t, p.args("--standby", "--control", "")...)
			assert.Equal(t, cli.ExitError, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, c.want)
			assert.NoFileExists(t, filepath.Join(p.state, "beat"))
		})
	}
}

// TestFindFence checks what a standby accepts as a fence.
func TestFindFence(t *testing.T) {
	p := newStandbyPair(t)
	p.writeRecord(func(*fencingRecord) {})
	at, err := mountOf(p.state)
	require.NoError(t, err)
	o := serveOptions{state: p.state, standbyOptions: newStandbyOptions()}
	o.standby.Word = standbyOn
	how, err := o.findFence(at)
	require.NoError(t, err)
	assert.Equal(t, at.Kind+" rejects late writes (tested 2026-11-30)", how)
	fsid, ok := exports.ParseFSID("7")
	require.True(t, ok)
	proc, err := mountOf("/proc")
	require.NoError(t, err)
	spec := []exportSpec{{dir: "/proc", name: "/proc", position: "x:1: ", fsid: fsid}}
	err = o.checkStandbyExports(spec)
	assert.ErrorContains(t, err, "x:1: /proc is on proc from proc (device "+proc.Device+"), about which the test of the state directory's file system says nothing: name a command that fences both with --fence")

	o.fence = "/usr/sbin/cut-off --now"
	how, err = o.findFence(at)
	require.NoError(t, err)
	assert.Equal(t, "command /usr/sbin/cut-off --now", how)
	assert.NoError(t, o.checkStandbyExports(spec))
	o.fence, o.standby.Word = "", standbyReadOnly
	how, err = o.findFence(at)
	require.NoError(t, err)
	assert.Contains(t, how, "read-only standby, without a fence")
}

// TestCheckSameMount checks that another file system of the same type and source is not taken for the
// state directory's, and that another mount of the same is.
func TestCheckSameMount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		one, two := t.TempDir(), t.TempDir()
		o := serveOptions{state: one}
		e := exportSpec{dir: two, position: "x:1: "}
		nstest.Script(t, "mount -t tmpfs same "+one+"; mount --bind "+one+" "+two)
		assert.NoError(t, o.checkSameMount(&e))
		nstest.Script(t, "umount "+two+"; mount -t tmpfs same "+two)
		assert.ErrorContains(t, o.checkSameMount(&e), "x:1: "+two+" is on tmpfs from same (device 0:")
		nstest.Script(t, "umount "+one+" "+two)
	})
}

// TestStandbyExports checks which exports a standby rejects.
func TestStandbyExports(t *testing.T) {
	for _, c := range []struct{ mode, options, want string }{
		{"on", "rw", " needs an fsid= that is the same on all hosts of --standby: add fsid="},
		{"on", "rw,fsid=0", " has fsid=0, for which clients see the number of a device of this host: write another, such as fsid=1"},
		{"on", "rw,fsid=7,crossmnt", " has crossmnt, but the mounts below it are each host's own: export each on its own line with an fsid=, or remove crossmnt"},
		{"read-only", "rw,fsid=7", " is exported for writing, and --standby=read-only has no fence: write ro, "},
		{"on", "rw,fsid=7", ""},
		{"read-only", "ro,fsid=7", ""},
	} {
		p := newStandbyPair(t)
		p.writeExports(c.options)
		o := serveOptions{state: p.state, exportsFile: p.exports, standbyOptions: newStandbyOptions()}
		o.standby.Word = c.mode
		if c.mode == standbyOn {
			o.fence = "true"
		}
		o.daemon.standby = new(standbyState)
		err := o.prepareStandby(slog.New(slog.DiscardHandler))
		if c.want == "" {
			assert.NoError(t, err, c.options)
			continue
		}
		assert.ErrorContains(t, err, p.exports+":1: "+p.data+c.want)
	}
}

// TestStandbyState checks which state directories a standby rejects.
func TestStandbyState(t *testing.T) {
	p := newStandbyPair(t)
	p.state = filepath.Join(p.state, "missing")
	status, _, stderr := runCommand(t, p.args("--standby", "--fence", "true", "--control", "")...)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, " does not exist: mount its file system, or create it there once")
	assert.NoDirExists(t, p.state)
}

// TestStatePlace checks that a standby rejects a state directory that clients can reach, or that other
// hosts cannot see.
func TestStatePlace(t *testing.T) {
	p := newStandbyPair(t)
	at, err := mountOf(p.state)
	require.NoError(t, err)
	check := func(state, kind, dir string) error {
		o := serveOptions{state: state}
		at.Kind = kind
		return o.checkStatePlace(at, []exportSpec{{dir: dir, name: dir, position: "x:1: "}})
	}
	assert.NoError(t, check(p.state, "ext4", p.data))
	assert.NoError(t, check(p.state, "ceph", "/proc"))
	assert.NoError(t, check(p.state, "ext4", filepath.Join(p.data, "missing")))
	assert.ErrorContains(t, check(p.state, "ext4", "/proc"), "the state directory "+p.state+" is on ext4, in which other hosts do not see whether this one serves: name a directory beside /proc on proc from proc with --state")
	assert.ErrorContains(t, check(p.state, "ceph", filepath.Dir(p.state)), "x:1: the state directory "+p.state+" is inside "+filepath.Dir(p.state)+", and clients could reach it: name another with --state")
}

// TestCheckFenceCommand checks that a command that cannot be executed is found before it is needed.
func TestCheckFenceCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "fence")
	o := serveOptions{standbyOptions: newStandbyOptions()}
	o.fence = script + " --now"
	assert.EqualError(t, o.checkFenceCommand(), "the command "+script+" of --fence cannot be executed (no such file or directory): correct its path or its permissions")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600))
	assert.EqualError(t, o.checkFenceCommand(), "the command "+script+" of --fence cannot be executed (permission denied): correct its path or its permissions")
	require.NoError(t, os.Chmod(script, 0o700))
	assert.NoError(t, o.checkFenceCommand())
	o.fence = "true"
	assert.NoError(t, o.checkFenceCommand())
}

// TestFenceCommand checks that the command gets its own words, the silent host's name and address, and
// that its failure and its output are reported.
func TestFenceCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "fence")
	out := script + ".out"
	write := func(text string) {
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	o := serveOptions{standbyOptions: newStandbyOptions()}
	o.fence, o.fenceTimeout = script+" --now", time.Minute
	silent := standby.Beat{Host: "a", Address: "192.0.2.1"}
	write(`echo "$@" > ` + out)
	require.NoError(t, o.runFence(t.Context(), silent))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "--now a 192.0.2.1\n", string(got))

	write("echo first; echo the switch is off >&2; exit 3")
	assert.EqualError(t, o.runFence(t.Context(), silent), "the fence command failed: exit status 3: the switch is off")
	write("sleep 600 & wait")
	o.fenceTimeout = 100 * time.Millisecond
	assert.EqualError(t, o.runFence(t.Context(), silent), "the fence command has not ended within 100ms")
	o.fence = script + ".missing"
	assert.ErrorContains(t, o.runFence(t.Context(), silent), "no such file or directory")
}

// TestWithFSID checks which clients get an fsid=.
func TestWithFSID(t *testing.T) {
	sources := []exports.Source{{Name: "x", Text: []byte("/a 192.0.2.1(rw,fsid=7)\n")}}
	assert.Equal(t, []string{"h(ro,fsid=7)", "-rw", "g(fsid=7)", "i(fsid=7)"}, withFSID(sources, "/a", []string{"h(ro)", "-rw", "g", "i()"}))
	assert.Equal(t, []string{"h(fsid=9)"}, withFSID(sources, "/a", []string{"h(fsid=9)"}))
	assert.Regexp(t, `^h\(rw,fsid=[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\)$`, withFSID(sources, "/b", []string{"h(rw)"})[0])
}
