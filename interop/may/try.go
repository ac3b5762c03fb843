package may

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Try tries all operations on each object that Make has made in dir.
func Try(dir string, w io.Writer) error {
	unix.Umask(0o022)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		t := trial{name: e.Name(), path: filepath.Join(dir, e.Name())}
		if strings.HasPrefix(t.name, "dir-") {
			t.tryDirectory()
		} else {
			t.tryFile()
		}
		if _, err := fmt.Fprintf(w, "%s:%s\n", t.name, t.said); err != nil {
			return err
		}
	}
	return nil
}

// A trial tries one object.
type trial struct {
	name, path string
	said       string
}

// record records an attempt's outcome.
func (t *trial) record(what string, err error) {
	var e syscall.Errno
	word := "ok"
	if errors.As(err, &e) {
		word = unix.ErrnoName(e)
	} else if err != nil {
		word = err.Error()
	}
	t.said += " " + what + "=" + word
}

func (t *trial) tryOpen(what, path string, flags int) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o666)
	if err == nil {
		err = unix.Close(fd)
	}
	t.record(what, err)
}

func (t *trial) tryFile() {
	t.record("R_OK", unix.Access(t.path, unix.R_OK))
	t.record("W_OK", unix.Access(t.path, unix.W_OK))
	t.record("X_OK", unix.Access(t.path, unix.X_OK))
	t.tryOpen("read", t.path, unix.O_RDONLY)
	t.tryOpen("write", t.path, unix.O_WRONLY)
	t.tryOpen("append", t.path, unix.O_WRONLY|unix.O_APPEND)
	t.record("touch", unix.UtimesNanoAt(unix.AT_FDCWD, t.path, nil, 0))
	then := unix.NsecToTimespec(1e18)
	t.record("utimes", unix.UtimesNanoAt(unix.AT_FDCWD, t.path, []unix.Timespec{then, then}, 0))
	t.record("truncate", unix.Truncate(t.path, 3))
	t.tryAttributes()
}

// tryAttributes changes rights. It must come last, because it affects later
// attempts.
func (t *trial) tryAttributes() {
	t.record("give", unix.Chown(t.path, Bob, -1))
	t.record("early", unix.Chown(t.path, -1, Early))
	t.record("late", unix.Chown(t.path, -1, Late))
	t.record("setgid", unix.Chmod(t.path, 0o2755))
}

func (t *trial) tryDirectory() {
	in := func(name string) string { return filepath.Join(t.path, name) }
	t.record("X_OK", unix.Access(t.path, unix.X_OK))
	t.record("list", listNames(t.path))
	var st unix.Stat_t
	t.record("find", unix.Stat(in("alice's"), &st))
	t.record("miss", unix.Stat(in("none"), &st))
	t.tryOpen("create", in("new"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	t.tryOpen("there", in("root's"), unix.O_CREAT|unix.O_RDONLY)
	t.record("mkdir", unix.Mkdir(in("sub"), 0o777))
	t.record("symlink", unix.Symlink("target", in("link")))
	t.record("mkfifo", unix.Mkfifo(in("fifo"), 0o666))
	t.record("rename", unix.Rename(in("bob's"), in("renamed")))
	t.record("replace", unix.Rename(in("alice's"), in("root's")))
	t.record("unlink", unix.Unlink(in("renamed")))
	t.record("rmdir", unix.Rmdir(in("sub")))
	t.tryAttributes()
}

// listNames reads only the names: a server does not report the types to a user
// without search permission.
func listNames(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Readdirnames(-1)
	return err
}

// Look writes type, mode, owner, group and links for each object below dir,
// except dir itself.
func Look(dir string, w io.Writer) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s %o %d:%d %d\n", path[len(dir)+1:], st.Mode, st.Uid, st.Gid, st.Nlink)
		return err
	})
}
