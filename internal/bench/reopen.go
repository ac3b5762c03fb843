package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// page is how much of a file a reopener reads, in bytes.
const page = 4096

// openers is how many goroutines open the files for the first time, because
// their server may be far away.
const openers = 32

// reopener opens files again, one after the other and repeatedly: it gets the
// attributes, reads a page and closes the file. Its arguments are the
// directory, the number of files in it, and the time; without a time, it opens
// each file once.
func reopener(args []string) error {
	files, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	k, err := startClock(args[2])
	if err != nil {
		return err
	}
	name := func(i int) string { return filepath.Join(args[0], fileName(i)) }
	if k.end == k.start {
		err = openAll(files, name)
		k.tick(0)
		return errors.Join(err, k.print())
	}
	names := make([]string, files)
	for i := range names {
		names[i] = name(i)
	}
	b := make([]byte, page)
	for i := 0; ; i = (i + 1) % files {
		if err := reopen(names[i], b); err != nil {
			return err
		}
		if !k.tick(page) {
			return k.print()
		}
	}
}

func openAll(files int, name func(int) string) error {
	var all sync.WaitGroup
	errs := make([]error, openers)
	for n := range openers {
		all.Go(func() {
			b := make([]byte, page)
			for i := n; i < files && errs[n] == nil; i += openers {
				errs[n] = reopen(name(i), b)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// reopen uses system calls alone: package os would check whether the file can
// be polled.
func reopen(name string, b []byte) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	n := 0
	if err == nil {
		n, err = unix.Pread(fd, b, 0)
	}
	if err == nil && (n != len(b) || st.Size != int64(n)) {
		err = fmt.Errorf("%d bytes of %d were read", n, st.Size)
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
