package fusefs

import (
	"bytes"
	"maps"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// The kernel decides an exclusive creation (mkdir, link, symlink, mknod, bind,
// O_EXCL) by a LOOKUP: if the name exists, the system call fails, and the server is
// not asked. A LOOKUP does not tell its purpose. Unless a delegation guarantees
// that a cached name still exists, it may therefore answer only the LOOKUPs of
// system calls that are known not to create exclusively.

// An openFlags is the index of a system call's argument with the flags of open(2),
// or noFlags.
type openFlags int

const noFlags openFlags = -1

// nonExclusiveCalls holds the system calls with a path that cannot create
// exclusively, except through the flags of open(2).
var nonExclusiveCalls = func() map[uint64]openFlags {
	calls := map[uint64]openFlags{unix.SYS_OPENAT: 2}
	for _, number := range []uint64{
		unix.SYS_STATX, unix.SYS_NEWFSTATAT, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_STATFS,
		unix.SYS_CHDIR, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_UNLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_TRUNCATE,
	} {
		calls[number] = noFlags
	}
	maps.Copy(calls, legacyNonExclusiveCalls)
	return calls
}()

// mayCreateExclusively reports whether a request's thread may be in a system call
// that creates a name exclusively.
func (o *op) mayCreateExclusively() bool {
	path := "/proc/" + strconv.FormatUint(uint64(o.from.Pid), 10) + "/syscall"
	for range syscallTries {
		line := readSyscall(path)
		if !bytes.HasPrefix(line, []byte("running")) {
			return createsExclusively(line)
		}
		runtime.Gosched() // the thread is about to wait for the reply
	}
	return true
}

// readSyscall reads a proc_pid_syscall(5) file, with as few calls as possible. It
// returns nothing for a thread in another PID namespace, or without permission to
// trace the thread.
func readSyscall(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	line := make([]byte, syscallLine)
	n, err := unix.Read(fd, line)
	if err != nil {
		return nil
	}
	return line[:n]
}

// createsExclusively reports whether a system call, as in proc_pid_syscall(5), may create
// a name exclusively.
func createsExclusively(line []byte) bool {
	f := bytes.Fields(line)
	if len(f) == 0 {
		return true
	}
	number, err := strconv.ParseUint(string(f[0]), 10, 64)
	if err != nil {
		return true
	}
	flags, known := nonExclusiveCalls[number]
	if !known || flags == noFlags {
		return !known
	}
	if len(f) < int(flags)+2 {
		return true
	}
	value, err := strconv.ParseUint(string(f[flags+1]), 0, 64)
	return err != nil || value&unix.O_EXCL != 0
}
