package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDoctor breaks one thing after the other.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, number, _ := net.SplitHostPort(taken.Addr().String())
	portlist := file("portlist", "udp 1\ntcp "+number+"\n")
	well := file("well", dir+" *(rw)\n")

	// What is broken, and what the doctor says; the rest is as it should be.
	for _, tt := range []struct {
		name  string
		hurt  func(*doctor)
		grade string
		want  string
	}{
		{"nothing", func(*doctor) {}, "ok", dir + " is a directory"},
		{"no file", func(d *doctor) { d.exports = filepath.Join(dir, "nosuch") }, "fail", "cannot be read"},
		{"no export", func(d *doctor) { d.exports = file("empty", "# nothing\n") }, "fail", "lists no export: write one"},
		{"an error", func(d *doctor) { d.exports = file("wrong", dir+" *(fly)\n") }, "fail", `unknown option "fly"`},
		{"no directory", func(d *doctor) { d.exports = file("missing", dir+"/nosuch *(rw)\n") }, "fail", "cannot be exported (no such file or directory): mkdir -p "},
		{"a file", func(d *doctor) { d.exports = file("afile", well+" *(rw)\n") }, "fail", "is not a directory: export " + dir},
		{"port", func(d *doctor) { d.tcp = taken.Addr().String() }, "fail", "the port is in use; choose another with --tcp: see who has it"},
		{"knfsd", func(d *doctor) { d.listen, d.portlist = taken.Addr().String(), portlist }, "fail", "Linux's NFS server has port " + number + ": systemctl disable --now nfs-server"},
		{"knfsd beside a daemon", func(d *doctor) {
			d.tcp, d.portlist, d.running = taken.Addr().String(), portlist, func() bool { return true }
		}, "fail", "Linux's NFS server has port " + number},
		{"a daemon", func(d *doctor) { d.tcp, d.running = taken.Addr().String(), func() bool { return true } }, "ok", "a daemon is running"},
		{"no address", func(d *doctor) { d.tcp, d.running = "192.0.2.1:5", func() bool { return true } }, "fail", "this machine has no such address; correct --tcp"},
		{"no rpcbind", func(d *doctor) { d.rpcbind = "127.0.0.1:1" }, "warn", "no rpcbind answers on this host: "},
		{"limit", func(d *doctor) { d.limit = func() (uint64, error) { return 10239, nil } }, "warn", "may have 10239 files open: 5120 connections take one each, and half of all are for the exports' files: ulimit -Hn 10240, or"},
		{"limit without TCP", func(d *doctor) { d.tcp = "" }, "ok", "may have 10240 files open"},
		{"more connections", func(d *doctor) { d.maxConns++ }, "warn", "ulimit -Hn 10242, or LimitNOFILE= of the unit"},
		{"clock", func(d *doctor) { d.clock = func() (int, error) { return unix.TIME_ERROR, nil } }, "warn", "timedatectl set-ntp true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := doctor{
				exports: well, listen: "127.0.0.1:0", tcp: "127.0.0.1:0", maxConns: 1024, rpcbind: taken.Addr().String(), portlist: filepath.Join(dir, "none"), status: "/proc/self/status",
				running: func() bool { return false }, limit: func() (uint64, error) { return 10240, nil }, clock: func() (int, error) { return 0, nil },
			}
			tt.hurt(&d)
			var out strings.Builder
			err := report(&out, d.examine(t.Context()))
			assert.Equal(t, tt.grade == "fail", err != nil, out.String())
			found := false
			for line := range strings.Lines(out.String()) {
				found = found || strings.HasPrefix(line, tt.grade+" ") && strings.Contains(line, tt.want)
			}
			assert.True(t, found, "%s: %q is not in\n%s", tt.grade, tt.want, out.String())
		})
	}
}

func TestDoctorCapabilities(t *testing.T) {
	assert.Equal(t, "ok", grade(1<<40-1).grade)
	f := grade(1<<40 - 1 - 1<<unix.CAP_SETUID)
	assert.Equal(t, "fail", f.grade)
	assert.Contains(t, f.what, "CAP_SETUID")
	f = grade(1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN)
	assert.Equal(t, "warn", f.grade)
	assert.Equal(t, "missing: CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, CAP_FOWNER", f.what)
}
