package model

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Player does operations and returns their results. Its error means that the
// player can no longer be used.
type Player interface {
	Do(o Op) (Result, error)
}

// A Dir performs operations in a directory on this machine. The process's umask
// must be 0.
type Dir string

// Do does an operation.
func (d Dir) Do(o Op) (Result, error) {
	r, err := d.doOp(o)
	var e syscall.Errno
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &e) && unix.ErrnoName(e) != "":
		return Result{Err: unix.ErrnoName(e)}, nil
	default:
		return Result{Err: err.Error()}, nil
	}
}

func (d Dir) doOp(o Op) (Result, error) {
	path, to := string(d)+"/"+o.Path, string(d)+"/"+o.To
	switch o.Kind {
	case Create, Write, Append, Rewrite, Read, Reopen:
		return onFile(path, o)
	case Truncate:
		return Result{}, os.Truncate(path, o.Off)
	case Chmod:
		return Result{}, unix.Chmod(path, o.Mode)
	case Utimes:
		ts := unix.NsecToTimespec(o.Off)
		return Result{}, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, 0)
	case Stat:
		return statFile(path)
	case Mkdir:
		return Result{}, unix.Mkdir(path, o.Mode)
	case Rmdir:
		return Result{}, unix.Rmdir(path)
	case Symlink:
		return Result{}, unix.Symlink(o.To, path)
	case Readlink:
		text, err := os.Readlink(path)
		return Result{Text: text}, err
	case Link:
		return Result{}, unix.Link(path, to)
	case Rename:
		return Result{}, unix.Rename(path, to)
	case Unlink:
		return Result{}, unix.Unlink(path)
	case List:
		return listDir(path)
	default:
		return Result{}, errors.New("no such operation: " + string(o.Kind))
	}
}

var flags = map[Kind]int{
	Create:  os.O_CREATE | os.O_WRONLY,
	Write:   os.O_WRONLY,
	Append:  os.O_WRONLY | os.O_APPEND,
	Rewrite: os.O_CREATE | os.O_TRUNC | os.O_WRONLY,
	Read:    os.O_RDONLY,
	Reopen:  os.O_RDONLY,
}

// onFile opens a file, does one thing with it, and closes it.
func onFile(path string, o Op) (r Result, err error) {
	flag := flags[o.Kind]
	if o.Excl {
		flag |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flag, os.FileMode(o.Mode))
	if err != nil {
		return r, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	switch o.Kind {
	case Write:
		_, err = f.WriteAt(o.writtenBytes(), o.Off)
	case Append, Rewrite:
		_, err = f.Write(o.writtenBytes())
	case Read:
		r, err = readFile(f, o)
	case Reopen:
		var st unix.Stat_t
		if err = unix.Fstat(int(f.Fd()), &st); err == nil {
			r, err = readFile(f, o)
			r.Attr = attrOf(&st)
		}
	default: // only made
	}
	return r, err
}

func readFile(f *os.File, o Op) (Result, error) {
	// Even for length 0, a read of a directory must fail.
	b := make([]byte, max(o.Len, 1))
	n, err := f.ReadAt(b, o.Off)
	if err != nil && err != io.EOF {
		return Result{}, err
	}
	return readResult(b[:min(n, o.Len)]), nil
}

func statFile(path string) (Result, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Result{}, err
	}
	return Result{Attr: attrOf(&st)}, nil
}

func attrOf(st *unix.Stat_t) *Attr {
	a := &Attr{
		Mode: st.Mode & 0o7777, Nlink: int(st.Nlink), UID: st.Uid, GID: st.Gid, Size: st.Size,
		Mtime: unix.TimespecToNsec(st.Mtim),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		a.Type = "file"
	case unix.S_IFDIR:
		a.Type, a.Size = "dir", 0 // this size depends on the file system
	case unix.S_IFLNK:
		a.Type = "link"
	}
	return a
}

func listDir(path string) (Result, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return Result{}, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return Result{Names: sortNames(names)}, nil
}
