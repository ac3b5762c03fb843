package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/internal/probe"
)

// A probeProc is nfsrdmad probe in its own process.
type probeProc struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}

	mu     sync.Mutex
	out    strings.Builder // standard output
	errs   strings.Builder // standard error
	change chan struct{}
}

// startProbe starts a probe whose host has a name.
func startProbe(t *testing.T, name, dir string, args ...string) *probeProc {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &probeProc{ended: make(chan struct{}), change: make(chan struct{}, 1)}
	p.cmd = exec.Command(self, append([]string{"probe", "--name", name, dir}, args...)...)
	p.cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = p.writer(&p.out), p.writer(&p.errs)
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("host %s:\n%s%s", name, &p.out, &p.errs)
		}
	})
	return p
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (p *probeProc) writer(to *strings.Builder) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		p.mu.Lock()
		to.Write(b)
		p.mu.Unlock()
		select {
		case p.change <- struct{}{}:
		default:
		}
		return len(b), nil
	})
}

// awaitText waits until the probe has printed a text, and returns all that it has
// printed.
func (p *probeProc) awaitText(t *testing.T, text string) string {
	t.Helper()
	for {
		p.mu.Lock()
		all := p.out.String() + p.errs.String()
		p.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		select {
		case <-p.change:
		case <-p.ended:
			if p.mu.Lock(); !strings.Contains(p.out.String()+p.errs.String(), text) {
				defer p.mu.Unlock()
				require.Fail(t, "the probe has ended without a text", "%q in %s%s", text, &p.out, &p.errs)
			}
			p.mu.Unlock()
		}
	}
}

// wait waits for the probe's end, and returns its exit status and output.
func (p *probeProc) wait() (status int, out, errs string) {
	<-p.ended
	return p.cmd.ProcessState.ExitCode(), p.out.String(), p.errs.String()
}

// assertNoProbeFiles checks that the probes have left nothing.
func assertNoProbeFiles(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".nfsrdma-probe-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestProbe checks the reports of two hosts that share a file system.
func TestProbe(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		fs := clusterfs.Start(t, clusterfs.Options{Silence: time.Hour})
		a := startProbe(t, "a", fs.Mount("a").Dir, "--json")
		a.awaitText(t, "now run on the other host")
		b := startProbe(t, "b", fs.Mount("b").Dir, "--json")
		var reports [2]probe.Report
		for i, p := range []*probeProc{a, b} {
			status, out, errs := p.wait()
			assert.Zero(t, status, errs)
			require.NoError(t, json.Unmarshal([]byte(out), &reports[i]))
		}
		assert.Equal(t, [2]string{"a", "b"}, reports[0].Hosts)
		assert.Equal(t, reports[0].Findings, reports[1].Findings)
		levels := map[string]string{}
		for _, f := range reports[0].Findings {
			levels[f.Check] = f.Level
		}
		assert.Equal(t, map[string]string{
			"flock": "ok", "fcntl": "ok", "inodes": "note", "handles": "ok", "cookies": "ok",
			"data": levels["data"], "rename": "ok", "unlink": "ok", "direct I/O": "ok", "clocks": "ok",
		}, levels)
		assert.Contains(t, []string{"ok", "note"}, levels["data"])
		assertNoProbeFiles(t, fs.Backing)
	})
}

// TestProbeLate checks the late test's verdict and record in each mode of a file
// system, that it finds the process that serves the mount, and that a standby rejects
// file systems that did not pass.
func TestProbeLate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options clusterfs.Options
		fences  bool
		want    string
	}{
		{"fences", clusterfs.Options{Fences: true, KeepLocks: time.Second}, true, "fences: the late write failed"},
		{"does not fence", clusterfs.Options{}, false, "does NOT fence: a late write of a host that had lost its lock replaced synced data, and its fsync returned success"},
		{"does not fence, keeps locks for a time", clusterfs.Options{KeepLocks: 3 * time.Second}, false, "does NOT fence: a late write of a host that had lost its lock replaced synced data, and its fsync returned success"},
		{"keeps locks", clusterfs.Options{KeepLocks: clusterfs.Never, Fences: true}, false, "has kept the lock of the silent host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // the test waits for times
			nstest.Run(t, func(t *testing.T) {
				fs := clusterfs.Start(t, tt.options)
				for _, dir := range []string{"state", "data"} {
					require.NoError(t, os.Mkdir(filepath.Join(fs.Backing, dir), 0o700))
				}
				record := filepath.Join(fs.Backing, "state", "fencing.json")
				require.NoError(t, os.WriteFile(record, []byte("of an earlier test"), 0o600))
				ha, hb := fs.Mount("a"), fs.Mount("b")
				a := startProbe(t, "a", filepath.Join(ha.Dir, "state"), "--late", "--silence=8s")
				a.awaitText(t, "now run on the other host")
				b := startProbe(t, "b", filepath.Join(hb.Dir, "state"), "--late")
				if tt.fences {
					_, code, _ := strings.Cut(a.awaitText(t, "mount the file system here anew"), "on host b: ")
					_, err := io.WriteString(b.stdin, "wrong\n"+code[:6]+"\n")
					require.NoError(t, err)
				}
				for _, p := range []*probeProc{a, b} {
					status, out, errs := p.wait()
					assert.Equal(t, tt.fences, status == 0, errs)
					assert.Contains(t, out, tt.want)
				}
				assertNoProbeFiles(t, filepath.Dir(record))
				assertRecord(t, record, tt.fences)
				if !tt.fences {
					assertStandbyRejects(t, hb.Dir)
				}
			})
		})
	}
}

// assertStandbyRejects checks that a standby on a mount starts neither the first time nor
// later, and names the remedy.
func assertStandbyRejects(t *testing.T, dir string) {
	t.Helper()
	p := &standbyPair{t: t, state: filepath.Join(dir, "state"), data: filepath.Join(dir, "data"), exports: filepath.Join(t.TempDir(), "exports")}
	p.writeExports("rw,fsid=7")
	for range 2 {
		status, _, stderr := runCommand(t, p.args("--standby", "--control", "")...)
		assert.Equal(t, cli.ExitError, status)
		assert.Contains(t, stderr, "nothing shows that "+clusterfs.Kind+" rejects late writes of a host whose lock it has given up, and files could be overwritten: test the file system with nfsrdmad probe --late, name a command with --fence, or serve read-only data with --standby=read-only")
	}
	assert.NoFileExists(t, filepath.Join(p.state, "beat"))
}

// assertRecord checks fencing.json, which there is only if the file system fences.
func assertRecord(t *testing.T, name string, fences bool) {
	t.Helper()
	b, err := os.ReadFile(name)
	if !fences {
		assert.ErrorIs(t, err, os.ErrNotExist)
		return
	}
	require.NoError(t, err)
	var got probe.Record
	require.NoError(t, json.Unmarshal(b, &got))
	assert.NotZero(t, got.Tested)
	assert.NotEmpty(t, got.Source)
	got.Tested, got.Source = time.Time{}, ""
	assert.Equal(t, probe.Record{Version: 1, FileSystem: clusterfs.Kind, Fences: true, Hosts: [2]string{"a", "b"}}, got)
}

// TestProbeShowsNothing checks that the late test has no verdict, and keeps the record,
// if no write of the first host has waited.
func TestProbeShowsNothing(t *testing.T) {
	for name, tt := range map[string]struct{ cut, want string }{
		"not cut off":  {"true", "nothing is shown: "},
		"cannot cut":   {"false", "false: exit status 1"},
		"mount killed": {"kill -STOP PID", "nothing is shown: the late write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nstest.Run(t, func(t *testing.T) {
				fs := clusterfs.Start(t, clusterfs.Options{Fences: true})
				record := filepath.Join(fs.Backing, "fencing.json")
				require.NoError(t, os.WriteFile(record, []byte("of an earlier test"), 0o600))
				ha, hb := fs.Mount("a"), fs.Mount("b")
				a := startProbe(t, "a", ha.Dir, "--late", "--silence=8s", "--cut", strings.Replace(tt.cut, "PID", strconv.Itoa(ha.PID), 1), "--restore", "true")
				a.awaitText(t, "now run on the other host")
				b := startProbe(t, "b", hb.Dir, "--late")
				if name == "mount killed" {
					a.awaitText(t, "is cut off from the file system")
					b.awaitText(t, "the lock of host a was free")
					ha.Kill()
				}
				status, out, errs := a.wait()
				assert.Equal(t, 1, status)
				assert.Empty(t, out)
				assert.Contains(t, errs, tt.want)
				if name == "mount killed" {
					b.cmd.Process.Signal(unix.SIGTERM)
				}
				status, out, _ = b.wait()
				assert.Equal(t, 1, status)
				assert.Empty(t, out)
				assert.FileExists(t, record)
			})
		})
	}
}

// signalCommand returns a command that sends a signal.
func signalCommand(t *testing.T, signal string, pid int) string {
	t.Helper()
	path, err := exec.LookPath("kill")
	require.NoError(t, err)
	return strings.Join([]string{path, "-" + signal, strconv.Itoa(pid)}, " ")
}

// TestProbeRestores checks that a host which was cut off is restored when its probe
// ends early.
func TestProbeRestores(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
			fs := clusterfs.Start(t, clusterfs.Options{})
			ha, hb := fs.Mount("a"), fs.Mount("b")
			a := startProbe(t, "a", ha.Dir, "--late", "--silence=1h", "--cut", signalCommand(t, "STOP", ha.PID), "--restore", signalCommand(t, "CONT", ha.PID))
			a.awaitText(t, "now run on the other host")
			startProbe(t, "b", hb.Dir, "--late")
			a.awaitText(t, "is cut off from the file system")
			require.NoError(t, a.cmd.Process.Signal(signal))
			status, _, _ := a.wait()
			assert.NotZero(t, status)
			require.NoError(t, os.WriteFile(filepath.Join(ha.Dir, "file"), nil, 0o600), "the mount works again")
		}
	})
}

// TestProbeCannotRestore checks that a probe ends although its host cannot be restored,
// and that the host is restored as soon as it can be.
func TestProbeCannotRestore(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		fs := clusterfs.Start(t, clusterfs.Options{})
		ha, hb := fs.Mount("a"), fs.Mount("b")
		script, able := filepath.Join(t.TempDir(), "restore"), filepath.Join(t.TempDir(), "able")
		require.NoError(t, os.WriteFile(script, []byte("test -e "+able+" && "+signalCommand(t, "CONT", ha.PID)), 0o600))
		a := startProbe(t, "a", ha.Dir, "--late", "--silence=1h", "--cut", signalCommand(t, "STOP", ha.PID), "--restore", "sh "+script)
		a.awaitText(t, "now run on the other host")
		startProbe(t, "b", hb.Dir, "--late")
		a.awaitText(t, "is cut off from the file system")
		require.NoError(t, a.cmd.Process.Signal(unix.SIGTERM))
		status, _, errs := a.wait()
		assert.Equal(t, 1, status)
		assert.Contains(t, errs, "this host is still cut off, and a process goes on to restore it: sh "+script+": exit status 1")
		require.NoError(t, os.WriteFile(able, nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(ha.Dir, "file"), nil, 0o600), "the mount works again")
	})
}

// TestProbeHangs checks that a probe ends with a signal although the file system has
// accepted an operation of its and does not respond, so that no signal ends it.
func TestProbeHangs(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		fs := clusterfs.Start(t, clusterfs.Options{})
		ha := fs.Mount("a")
		a := startProbe(t, "a", ha.Dir)
		a.awaitText(t, "now run on the other host")
		ha.Hang()
		require.NoError(t, a.cmd.Process.Signal(unix.SIGTERM))
		status, _, errs := a.wait()
		assert.Equal(t, 1, status)
		assert.Contains(t, errs, "terminated signal received")
		assert.Contains(t, errs, "later: the file system does not respond")
	})
}

// TestProbeAsks checks that the administrator is asked to cut the host off if two
// processes could be the one that serves the mount.
func TestProbeAsks(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		fs := clusterfs.Start(t, clusterfs.Options{})
		ha, hb := fs.Mount("a"), fs.Mount("b")
		shareDevice(t, ha.PID)
		a := startProbe(t, "a", ha.Dir, "--late", "--silence=8s")
		a.awaitText(t, "now run on the other host")
		b := startProbe(t, "b", hb.Dir, "--late")
		a.awaitText(t, "cut this host off from the servers of the file system now")
		ha.Stop()
		a.awaitText(t, "restore the connection of this host")
		ha.Continue()
		for _, p := range []*probeProc{a, b} {
			status, out, errs := p.wait()
			assert.Equal(t, 1, status, errs)
			assert.Contains(t, out, "does NOT fence")
		}
	})
}

// shareDevice opens a process's FUSE device in this process too.
func shareDevice(t *testing.T, pid int) {
	t.Helper()
	process, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(process)
	fds, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	require.NoError(t, err)
	for _, name := range fds {
		if target, _ := os.Readlink(name); target == "/dev/fuse" {
			number, _ := strconv.Atoi(filepath.Base(name))
			fd, err := unix.PidfdGetfd(process, number, 0)
			require.NoError(t, err)
			t.Cleanup(func() { unix.Close(fd) })
			return
		}
	}
	require.Fail(t, "the process has no FUSE device")
}

// TestProbeAlone checks that hosts which do not share a file system wait for each other
// and say so, and that three hosts, one host and unsafe directories are rejected.
func TestProbeAlone(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		one, two := t.TempDir(), t.TempDir()
		for _, dir := range []string{one, two} {
			nstest.Script(t, "mount -t tmpfs -o mode=755 tmpfs "+dir)
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		}
		a, b := startProbe(t, "a", one, "--wait=1s"), startProbe(t, "b", two, "--wait=1s")
		for _, p := range []*probeProc{a, b} {
			status, _, errs := p.wait()
			assert.Equal(t, 1, status)
			assert.Contains(t, errs, "within 1s: start it on the other host, and check that both hosts mount the same file system there (this host has tmpfs from tmpfs)")
		}
		assertNoProbeFiles(t, one)

		nstest.Script(t, "mount --bind "+one+" "+two)
		t.Cleanup(func() { unix.Unmount(two, unix.MNT_DETACH) })
		a, b = startProbe(t, "a", one), startProbe(t, "b", two)
		status, _, errs := b.wait()
		assert.Equal(t, 1, status)
		assert.Contains(t, errs, "the other probe uses the same mount on the same host")
		a.cmd.Process.Signal(unix.SIGTERM)
		a.wait()
		assertNoProbeFiles(t, one)

		require.NoError(t, os.Chmod(one, 0o777))
		status, _, errs = startProbe(t, "a", one).wait()
		assert.Equal(t, 1, status)
		assert.Contains(t, errs, "other users can write there")
	})
}
