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
			t.directory()
		} else {
			t.file()
		}
		if _, err := fmt.Fprintf(w, "%s:%s\n", t.name, t.said); err != nil {
			return err
		}
	}
	return nil
}

// A trial is the trial of one object.
type trial struct {
	name, path string
	said       string
}

// did records the outcome of an attempt.
func (t *trial) did(what string, err error) {
	var e syscall.Errno
	word := "ok"
	if errors.As(err, &e) {
		word = unix.ErrnoName(e)
	} else if err != nil {
		word = err.Error()
	}
	t.said += " " + what + "=" + word
}

func (t *trial) open(what, path string, flags int) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o666)
	if err == nil {
		err = unix.Close(fd)
	}
	t.did(what, err)
}

func (t *trial) file() {
	t.did("R_OK", unix.Access(t.path, unix.R_OK))
	t.did("W_OK", unix.Access(t.path, unix.W_OK))
	t.did("X_OK", unix.Access(t.path, unix.X_OK))
	t.open("read", t.path, unix.O_RDONLY)
	t.open("write", t.path, unix.O_WRONLY)
	t.open("append", t.path, unix.O_WRONLY|unix.O_APPEND)
	t.did("touch", unix.UtimesNanoAt(unix.AT_FDCWD, t.path, nil, 0))
	then := unix.NsecToTimespec(1e18)
	t.did("utimes", unix.UtimesNanoAt(unix.AT_FDCWD, t.path, []unix.Timespec{then, then}, 0))
	t.did("truncate", unix.Truncate(t.path, 3))
	t.attributes()
}

// attributes changes rights. It must come last, because it affects later
// attempts.
func (t *trial) attributes() {
	t.did("give", unix.Chown(t.path, Bob, -1))
	t.did("early", unix.Chown(t.path, -1, Early))
	t.did("late", unix.Chown(t.path, -1, Late))
	t.did("setgid", unix.Chmod(t.path, 0o2755))
}

func (t *trial) directory() {
	in := func(name string) string { return filepath.Join(t.path, name) }
	t.did("X_OK", unix.Access(t.path, unix.X_OK))
	t.did("list", list(t.path))
	var st unix.Stat_t
	t.did("find", unix.Stat(in("alice's"), &st))
	t.did("miss", unix.Stat(in("none"), &st))
	t.open("create", in("new"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	t.open("there", in("root's"), unix.O_CREAT|unix.O_RDONLY)
	t.did("mkdir", unix.Mkdir(in("sub"), 0o777))
	t.did("symlink", unix.Symlink("target", in("link")))
	t.did("mkfifo", unix.Mkfifo(in("fifo"), 0o666))
	t.did("rename", unix.Rename(in("bob's"), in("renamed")))
	t.did("replace", unix.Rename(in("alice's"), in("root's")))
	t.did("unlink", unix.Unlink(in("renamed")))
	t.did("rmdir", unix.Rmdir(in("sub")))
	t.attributes()
}

// list reads only the names: a server does not report the types to a user
// without search permission.
func list(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Readdirnames(-1)
	return err
}

// Look writes type, mode, owner, group and links of each object below dir,
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
