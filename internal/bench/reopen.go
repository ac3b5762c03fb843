package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// pageSize is the number of bytes that runReopener reads from a file.
const pageSize = 4096

// openers is the number of goroutines that open the files for the first time,
// because their server may be far away.
const openers = 32

// runReopener opens files again, one after another and repeatedly: it gets the
// attributes, reads a page and closes the file. Its arguments are the directory,
// its file count, and the time; without a time, it opens each file once.
func runReopener(args []string) error {
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
		k.recordOp(0)
		return errors.Join(err, k.printResult())
	}
	names := make([]string, files)
	for i := range names {
		names[i] = name(i)
	}
	b := make([]byte, pageSize)
	for i := 0; ; i = (i + 1) % files {
		if err := reopenFile(names[i], b); err != nil {
			return err
		}
		if !k.recordOp(pageSize) {
			return k.printResult()
		}
	}
}

func openAll(files int, name func(int) string) error {
	var wg sync.WaitGroup
	errs := make([]error, openers)
	for n := range openers {
		wg.Go(func() {
			b := make([]byte, pageSize)
			for i := n; i < files && errs[n] == nil; i += openers {
				errs[n] = reopenFile(name(i), b)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// reopenFile opens, stats, reads and closes a file with plain system calls: package
// os would check whether the file can be polled.
func reopenFile(name string, b []byte) error {
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
