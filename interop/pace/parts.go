package pace

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pages returns n bytes, page-aligned and all mapped.
func pages(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	for i := range b {
		b[i] = byte(i)
	}
	return b, nil
}

// forget drops the kernel's caches of files, names and attributes.
func forget() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// write ends when the server has all data on stable storage.
func (r *run) write() error {
	f, err := os.Create(r.file)
	if err != nil {
		return err
	}
	for range Size / Request {
		if _, err := f.Write(r.data); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}

// readDirect has a single READ of a request's length under way at a time.
func (r *run) readDirect() error { return r.readAll(unix.O_DIRECT) }

// read lets the client choose the number and length of READs.
func (r *run) read() error { return r.readAll(0) }

func (r *run) readAll(flags int) error {
	f, err := os.OpenFile(r.file, os.O_RDONLY|flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for n := 0; n < Size; n += Request {
		if _, err := io.ReadFull(f, r.data); err != nil {
			return fmt.Errorf("at %d: %w", n, err)
		}
	}
	return nil
}

func (r *run) create() error {
	for _, name := range r.names {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stat() error {
	for _, name := range r.names {
		if _, err := os.Lstat(name); err != nil {
			return err
		}
	}
	return nil
}

// list does the work of "ls -l".
func (r *run) list() error {
	list, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	if len(list) != entries {
		return fmt.Errorf("%d files are listed, not %d", len(list), entries)
	}
	for _, e := range list {
		if _, err := e.Info(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) unlink() error {
	for _, name := range r.names {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// lock locks and unlocks bytes through one open file.
func (r *run) lock() error {
	f, err := os.OpenFile(r.file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	for i := range int64(pairs) {
		if err := pair(f, i); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// lockOpened opens the file for each lock, as programs do.
func (r *run) lockOpened() error {
	for i := range int64(pairs) {
		f, err := os.OpenFile(r.file, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(pair(f, i), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// pair locks a byte of the file and unlocks it.
func pair(f *os.File, at int64) error {
	for _, kind := range []int16{unix.F_WRLCK, unix.F_UNLCK} {
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: 1}); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return nil
}
