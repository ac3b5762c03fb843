package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// TestHost checks a host with one problem at a time.
func TestHost(t *testing.T) {
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

	// Each case causes one problem; want is part of the line about it.
	for _, tt := range []struct {
		name  string
		hurt  func(*Host)
		grade Grade
		want  string
	}{
		{"nothing", func(*Host) {}, OK, dir + " is a directory"},
		{"no file", func(h *Host) { h.ExportsFile = filepath.Join(dir, "nosuch") }, Fail, "nosuch does not exist: nfsrdmad exports add --exports " + filepath.Join(dir, "nosuch") + " "},
		{"no export", func(h *Host) { h.ExportsFile = file("empty", "# nothing\n") }, Fail, "lists no export: add one"},
		{"an error", func(h *Host) { h.ExportsFile = file("wrong", dir+" *(fly)\n") }, Fail, `unknown option "fly"`},
		{"no directory", func(h *Host) { h.ExportsFile = file("missing", dir+"/nosuch *(rw)\n") }, Fail, "cannot be exported (no such file or directory): mkdir -p "},
		{"a file", func(h *Host) { h.ExportsFile = file("afile", well+" *(rw)\n") }, Fail, "is not a directory: export " + dir},
		{"port", func(h *Host) { h.TCP = taken.Addr().String() }, Fail, fmt.Sprintf("the port is in use; choose another with --tcp; doctor.test (process %d) uses it: systemctl status %[1]d names its unit", os.Getpid())},
		{"knfsd", func(h *Host) { h.Listen, h.portlist = taken.Addr().String(), portlist }, Fail, "Linux's NFS server uses port " + number + ": systemctl disable --now nfs-server"},
		{"knfsd and a daemon", func(h *Host) {
			h.TCP, h.portlist, h.Daemon = taken.Addr().String(), portlist, func() (int, bool) { return 0, true }
		}, Fail, "Linux's NFS server uses port " + number},
		{"a daemon", func(h *Host) { h.TCP, h.Daemon = taken.Addr().String(), func() (int, bool) { return 0, true } }, OK, "a daemon is running"},
		{"the daemon", func(h *Host) {
			h.TCP, h.Daemon = taken.Addr().String(), func() (int, bool) { return os.Getpid(), true }
		}, OK, fmt.Sprintf("a daemon is running (process %d), and uses ", os.Getpid())},
		{"another process than the daemon", func(h *Host) { h.TCP, h.Daemon = taken.Addr().String(), func() (int, bool) { return 1, true } }, Fail, fmt.Sprintf("a daemon is running (process 1), but doctor.test (process %d) uses ", os.Getpid())},
		{"knfsd on cards", func(h *Host) { h.Listen, h.portlist = "127.0.0.1:0", file("onrdma", "tcp 2049\nrdma 0\n") }, Fail, "Linux's NFS server uses RDMA port 0"},
		{"knfsd on other ports", func(h *Host) { h.portlist = file("otherports", "tcp 7\nrdma 8\n") }, OK, "Linux's NFS server is running, on other ports: tcp 7,rdma 8"},
		{"modules", func(h *Host) { h.modules = filepath.Dir(file("siw", "")) }, OK, "siw are for this host's mounts"},
		{"no state", func(h *Host) { h.State = "" }, Fail, "choose one with --state"},
		{"state to make", func(h *Host) { h.State = dir + "/a/b" }, OK, "of the file system of " + dir + " is free"},
		{"state is a file", func(h *Host) { h.State = well + "/b" }, Fail, "not a directory"},
		{"no address", func(h *Host) { h.TCP, h.Daemon = "192.0.2.1:5", func() (int, bool) { return 0, true } }, Fail, "this host has no such address; correct --tcp"},
		{"no rpcbind", func(h *Host) { h.rpcbind = "127.0.0.1:1" }, Warn, "no rpcbind responds on this host: "},
		{"limit", func(h *Host) { h.limit = func() (uint64, error) { return 10239, nil } }, Warn, "may open 10239 files: 5120 connections need one each, and half of all are reserved for the exports' files: ulimit -Hn 10240, or"},
		{"clock", func(h *Host) { h.clock = func() (int, error) { return unix.TIME_ERROR, nil } }, Warn, "timedatectl set-ntp true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &Host{
				ExportsFile: well, Listen: "127.0.0.1:0", TCP: "127.0.0.1:0", Daemon: func() (int, bool) { return 0, false }, State: dir, FilesFor: func() (int, uint64) { return 5120, 10240 },
				rpcbind: taken.Addr().String(), portlist: filepath.Join(dir, "none"), modules: filepath.Join(dir, "none"), status: "/proc/self/status",
				limit: func() (uint64, error) { return 10240, nil }, clock: func() (int, error) { return 0, nil }, probeTimeout: time.Minute,
			}
			h.Exports = func() (*exports.File, error) {
				text, err := os.ReadFile(h.ExportsFile)
				if err != nil {
					return nil, err
				}
				return exports.Parse(h.ExportsFile, text)
			}
			tt.hurt(h)
			var out strings.Builder
			err := Print(&out, h.Examine(t.Context()), false)
			assert.Equal(t, tt.grade == Fail, err != nil, out.String())
			found := false
			for line := range strings.Lines(out.String()) {
				found = found || strings.HasPrefix(line, string(tt.grade)+" ") && strings.Contains(line, tt.want)
			}
			assert.True(t, found, "%s: %q is not in\n%s", tt.grade, tt.want, out.String())
		})
	}
}

// TestSocketUnit checks a port on which systemd listens for a daemon, before and after the
// daemon's start.
func TestSocketUnit(t *testing.T) {
	h, pid := NewHost(), 0
	h.Daemon = func() (int, bool) { return pid, pid != 0 }
	before := h.judgeHolders("--listen", ":20049", unix.EADDRINUSE, []holder{{1, "systemd"}})
	assertFinding(t, []Finding{before}, "port", Warn, "systemd listens on :20049", "systemctl list-sockets")
	pid = 7
	after := h.judgeHolders("--listen", ":20049", unix.EADDRINUSE, []holder{{1, "systemd"}, {7, "nfsrdmad"}})
	assertFinding(t, []Finding{after}, "port", OK, "a daemon is running (process 7)", "")
	pid = 0
	other := h.judgeHolders("--listen", ":20049", unix.EADDRINUSE, []holder{{1, "sleep"}})
	assertFinding(t, []Finding{other}, "port", Fail, "sleep (process 1) uses it", "systemctl status 1")
}

func TestCapabilities(t *testing.T) {
	assert.Equal(t, OK, judgeCapabilities(1<<40-1).Grade)
	f := judgeCapabilities(1<<40 - 1 - 1<<unix.CAP_SETUID)
	assert.Equal(t, Fail, f.Grade)
	assert.Contains(t, f.Found, "CAP_SETUID")
	f = judgeCapabilities(1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN)
	assert.Equal(t, Warn, f.Grade)
	assert.Equal(t, "missing: CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, CAP_FOWNER", f.Found)
}

func TestPrintJSON(t *testing.T) {
	var out strings.Builder
	assert.ErrorIs(t, Print(&out, []Finding{{"clock", OK, "it is < synchronized", ""}, {"nfs", Fail, "closed", "open it"}}, true), cli.ErrReported)
	assert.Equal(t, `[{"check":"clock","grade":"ok","found":"it is < synchronized"},{"check":"nfs","grade":"fail","found":"closed","remedy":"open it"}]`+"\n", out.String())
}
