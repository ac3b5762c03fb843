package pace

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// allocatePages returns n bytes, page-aligned and all mapped.
func allocatePages(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	for i := range b {
		b[i] = byte(i)
	}
	return b, nil
}

// dropCaches drops the kernel's file, name and attribute caches.
func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// writeFile ends when the server has all data on stable storage.
func (r *measurement) writeFile() error {
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

// readDirect has a single READ with a request's length in flight at a time.
func (r *measurement) readDirect() error { return r.readAll(unix.O_DIRECT) }

// readCached lets the client choose number and length of its READs.
func (r *measurement) readCached() error { return r.readAll(0) }

func (r *measurement) readAll(flags int) error {
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

func (r *measurement) createFiles() error {
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

func (r *measurement) statFiles() error {
	for _, name := range r.names {
		if _, err := os.Lstat(name); err != nil {
			return err
		}
	}
	return nil
}

// listFiles does what "ls -l" does.
func (r *measurement) listFiles() error {
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

func (r *measurement) unlinkFiles() error {
	for _, name := range r.names {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// lockBytes locks and unlocks bytes through one open file.
func (r *measurement) lockBytes() error {
	f, err := os.OpenFile(r.file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	for i := range int64(lockPairs) {
		if err := lockAndUnlock(f, i); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// lockOpened opens the file for each lock, as programs do.
func (r *measurement) lockOpened() error {
	for i := range int64(lockPairs) {
		f, err := os.OpenFile(r.file, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(lockAndUnlock(f, i), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// lockAndUnlock locks a byte in the file and unlocks it.
func lockAndUnlock(f *os.File, at int64) error {
	for _, kind := range []int16{unix.F_WRLCK, unix.F_UNLCK} {
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: 1}); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return nil
}
