//go:build linux

package posix

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// fuseEnv names the variable with the directory that this program, run by a test, serves
// by FUSE, and with the mount point.
const fuseEnv = "NFSRDMA_TEST_FUSE"

// serveFUSE serves a directory by FUSE until it is stopped.
func serveFUSE(dirs string) error {
	from, to, _ := strings.Cut(dirs, ":")
	root, err := fs.NewLoopbackRoot(from)
	if err != nil {
		return err
	}
	keep := time.Duration(0) // in the kernel: all is asked again
	server, err := fs.Mount(to, root, &fs.Options{
		AttrTimeout: &keep, EntryTimeout: &keep, MountOptions: fuse.MountOptions{DirectMount: true, AllowOther: true},
	})
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	fmt.Println("ready")
	<-stop
	return server.Unmount()
}

// fileSystems mount a new file system, whose content fill makes, at dir.
var fileSystems = map[string]func(t *testing.T, dir string, fill func(dir string)){
	"tmpfs": func(t *testing.T, dir string, fill func(string)) {
		mountTmpfs(t, dir, "mode=0777")
		fill(dir)
	},
	"ext4":  mountImage("ext4", "mkfs.ext4", "-q"),
	"xfs":   mountImage("xfs", "mkfs.xfs", "-q"),
	"btrfs": mountImage("btrfs", "mkfs.btrfs", "-q"),
	"overlay": func(t *testing.T, dir string, fill func(string)) {
		base := t.TempDir()
		mountTmpfs(t, base, "")
		layer := func(name string) string {
			path := filepath.Join(base, name)
			require.NoError(t, os.Mkdir(path, 0o777))
			return path
		}
		fill(layer("lower"))
		options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s,workdir=%s", base, layer("upper"), layer("work"))
		require.NoError(t, unix.Mount("overlay", dir, "overlay", 0, options))
		t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	},
	"fuse": func(t *testing.T, dir string, fill func(string)) {
		from := t.TempDir()
		fill(from)
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fuseEnv+"="+from+":"+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Signal(unix.SIGTERM)
			_ = cmd.Wait()
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		})
		var ready string
		_, err = fmt.Fscan(out, &ready)
		require.NoError(t, err)
		require.Equal(t, "ready", ready)
	},
}

// mountImage makes a file system by a program, in a file on a loop device.
func mountImage(kind string, mkfs ...string) func(*testing.T, string, func(string)) {
	return func(t *testing.T, dir string, fill func(string)) {
		run := func(args ...string) {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			require.NoError(t, err, "%s: %s", args, out)
		}
		image := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(image, nil, 0o600))
		require.NoError(t, os.Truncate(image, 512<<20))
		run(append(mkfs, image)...)
		run("mount", "-t", kind, "-o", "loop", image, dir)
		t.Cleanup(func() { run("umount", dir) })
		fill(dir)
	}
}

// A testOperations is a directory in which the steps of TestFileSystems are done.
type testOperations interface {
	write(name, data string) error
	truncate(name string, size uint64) error
	link(old, name string) error
	rename(from, to string) error
	remove(name string) error
	restart()
}

// hostOperations are the operations as a local process.
type hostOperations struct{ dir string }

func (w hostOperations) path(name string) string { return filepath.Join(w.dir, name) }

func (w hostOperations) write(name, data string) error {
	f, err := os.OpenFile(w.path(name), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(data), 0)
	return errors.Join(err, f.Close())
}

func (w hostOperations) truncate(name string, size uint64) error {
	return os.Truncate(w.path(name), int64(size))
}
func (w hostOperations) link(old, name string) error  { return os.Link(w.path(old), w.path(name)) }
func (w hostOperations) rename(from, to string) error { return unix.Rename(w.path(from), w.path(to)) }
func (w hostOperations) remove(name string) error     { return os.Remove(w.path(name)) }
func (w hostOperations) restart()                     {}

// A servedOperations is a work of a client.
type servedOperations struct{ *testFS }

func (w *servedOperations) at(name string) (dir vfs.Handle, base string) {
	up, base := filepath.Split(name)
	if up == "" {
		return w.f.Root(), base
	}
	return w.walk(strings.Split(filepath.Clean(up), "/")...), base
}

func (w *servedOperations) write(name, data string) error {
	dir, base := w.at(name)
	mode := uint32(0o644)
	m, err := w.f.Create(w.Context(), &w.c, dir, base, vfs.CreateHow{Attr: vfs.SetAttr{Mode: &mode}})
	if err == nil {
		_, _, _, err = w.f.Write(w.Context(), &w.c, m.Handle, []byte(data), 0, vfs.FileSync)
	}
	return err
}

func (w *servedOperations) truncate(name string, size uint64) error {
	_, err := w.f.SetAttr(w.Context(), &w.c, w.walk(strings.Split(name, "/")...), vfs.SetAttr{Size: &size}, nil)
	return err
}

func (w *servedOperations) link(old, name string) error {
	dir, base := w.at(name)
	_, _, err := w.f.Link(w.Context(), &w.c, w.walk(strings.Split(old, "/")...), dir, base)
	return err
}

func (w *servedOperations) rename(from, to string) error {
	d, a := w.at(from)
	e, b := w.at(to)
	_, _, err := w.f.Rename(w.Context(), &w.c, d, a, e, b)
	return err
}

func (w *servedOperations) remove(name string) error {
	dir, base := w.at(name)
	_, err := w.f.Remove(w.Context(), &w.c, dir, base)
	return err
}

func (w *servedOperations) restart() { w.reopen() }

// tell describes the files of the directory: mode, length, links, content, and the first
// name of the same file.
func (w hostOperations) tell(t *testing.T) (out []string) {
	same := map[uint64]string{}
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(path, &st))
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(w.dir, path)
		out = append(out, tell(same, st.Ino, name, st.Mode, uint64(st.Size), uint32(st.Nlink), string(data)))
		return err
	}))
	slices.Sort(out)
	return out
}

func tell(same map[uint64]string, ino uint64, name string, mode uint32, size uint64, links uint32, data string) string {
	if same[ino] == "" {
		same[ino] = name
	}
	return fmt.Sprintf("%s: %#o %d %d %q as %s", name, mode&modeBits, size, links, data, same[ino])
}

// tell describes the files that a client sees.
func (w *servedOperations) tell() (out []string) {
	same := map[uint64]string{}
	var walk func(dir vfs.Handle, path string)
	walk = func(dir vfs.Handle, path string) {
		var names []string
		_, _, _, err := w.f.ReadDir(w.Context(), &w.c, dir, 0, 0, false, func(e *vfs.Entry) bool {
			names = append(names, string(e.Name))
			return true
		})
		require.NoError(w, err)
		slices.Sort(names)
		for _, name := range names {
			if isDots(name) {
				continue
			}
			h, a, _, err := w.f.Lookup(w.Context(), &w.c, dir, name)
			require.NoError(w, err, name)
			switch a.Type {
			case vfs.TypeDir:
				walk(h, path+name+"/")
			case vfs.TypeReg:
				out = append(out, tell(same, a.FileID, path+name, a.Mode, a.Size, a.Nlink, w.read(h, 100)))
			}
		}
	}
	walk(w.f.Root(), "")
	slices.Sort(out)
	return out
}

// TestFileSystems does the same steps in two directories of each type of file system: in
// one as a client, in the other as a process of the host. Files must be the same to
// both after each step, and a handle from the start must lead to the file that had its name,
// also after a restart.
func TestFileSystems(t *testing.T) {
	vfstest.NeedRoot(t)
	fill := func(dir string) {
		for _, part := range []string{"served", "local"} {
			at := func(name string) string { return filepath.Join(dir, part, name) }
			require.NoError(t, os.MkdirAll(at("d/e"), 0o777))
			for _, name := range []string{"a", "s", "t", "d/e/f"} {
				require.NoError(t, os.WriteFile(at(name), []byte("old"), 0o644))
			}
			for _, name := range []string{"b", "c", "d/x"} {
				require.NoError(t, os.Link(at("a"), at(name)))
			}
		}
	}
	type step struct {
		what string
		do   func(testOperations) error
		now  map[string]string // the names of the first names' files, where they are others; "" for none
	}
	again := step{"restart", func(w testOperations) error { w.restart(); return nil }, nil}
	steps := []step{
		{"write", func(w testOperations) error { return w.write("s", "new") }, nil},
		again,
		{"write one of several names", func(w testOperations) error { return w.write("a", "for a") }, nil},
		again,
		{"write another", func(w testOperations) error { return w.write("d/x", "for x") }, nil},
		{"write below", func(w testOperations) error { return w.write("d/e/f", "longer data") }, nil},
		{"write a new file", func(w testOperations) error { return w.write("d/e/new", "new") }, nil},
		again,
		{"truncate", func(w testOperations) error { return w.truncate("t", 1) }, nil},
		{"link", func(w testOperations) error { return w.link("t", "d/t2") }, nil},
		{"write the link", func(w testOperations) error { return w.write("d/t2", "linked") }, nil},
		again,
		{"rename", func(w testOperations) error { return w.rename("s", "d/moved") }, map[string]string{"s": "d/moved"}},
		{"rename one of several names", func(w testOperations) error { return w.rename("b", "d/e/b") }, map[string]string{"b": "d/e/b"}},
		again,
		{"write what was renamed", func(w testOperations) error { return w.write("d/e/b", "for b") }, nil},
		{"rename over", func(w testOperations) error { return w.rename("d/e/new", "d/e/f") }, map[string]string{"d/e/f": ""}},
		{"rename a link over another", func(w testOperations) error { return w.rename("t", "d/t2") }, nil},
		// Overlayfs does not rename directories of a lower layer.
		{"rename a directory", func(w testOperations) error { return w.rename("d/e", "e") }, map[string]string{"b": "e/b"}},
		again,
		{"link again", func(w testOperations) error { return w.link("c", "c2") }, nil},
		{"write by the first name", func(w testOperations) error { return w.write("c", "for c") }, nil},
		{"remove", func(w testOperations) error { return w.remove("a") }, map[string]string{"a": ""}},
		again,
	}
	for kind, mount := range fileSystems {
		for handles, o := range map[string]Options{"kernel": {}, "table": {TableHandles: true}} {
			t.Run(kind+"/"+handles, func(t *testing.T) {
				dir := t.TempDir()
				mount(t, dir, fill)
				s := &exportedDir{filepath.Join(dir, "served"), o}
				s.o.StateDir = t.TempDir()
				served := &servedOperations{&testFS{t, s, s.open(t), vfs.Cred{}}}
				local := hostOperations{filepath.Join(dir, "local")}
				first, names := map[string]vfs.Handle{}, map[string]string{}
				for _, name := range []string{"a", "b", "c", "s", "d/x", "d/e/f"} {
					first[name] = served.walk(strings.Split(name, "/")...)
					names[name] = name
				}
				for _, step := range steps {
					failed := step.do(local)
					require.Equal(t, failed, step.do(served), step.what)
					want := local.tell(t)
					require.Equal(t, want, hostOperations{s.dir}.tell(t), "%s: the host", step.what)
					require.Equal(t, want, served.tell(), "%s: a client", step.what)
					if failed == nil {
						maps.Copy(names, step.now)
					}
					for name, now := range names {
						if now == "" {
							continue
						}
						data, err := os.ReadFile(local.path(now))
						require.NoError(t, err)
						require.Equal(t, string(data), served.read(first[name], 100), "%s: the handle of %s", step.what, name)
					}
					served.expireIdle()
				}
			})
		}
	}
}
