// Command guestwork runs packages workload, may, posix, model, pace, locking, holes, acl4 and transact inside
// the guest of the interop tests, which has no language except the shell.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/interop/acl4"
	"github.com/nfsrdma/nfsrdma/interop/holes"
	"github.com/nfsrdma/nfsrdma/interop/locking"
	"github.com/nfsrdma/nfsrdma/interop/may"
	"github.com/nfsrdma/nfsrdma/interop/model"
	"github.com/nfsrdma/nfsrdma/interop/pace"
	"github.com/nfsrdma/nfsrdma/interop/posix"
	"github.com/nfsrdma/nfsrdma/interop/transact"
	"github.com/nfsrdma/nfsrdma/interop/workload"
)

const usage = `usage:
	guestwork run DIR [STEP...]            do the steps in DIR
	guestwork edges DIR CALL REPLY         work around these lengths; see workload.Edges
	guestwork manifest DIR                 describe each object below DIR
	guestwork hold DIR                     keep files open; see workload.Hold
	guestwork block FILE                   keep others from writing to FILE; see workload.Block
	guestwork ledger DIR                   append and sync; see workload.Ledger
	guestwork posix DIR [CASE...]          results of the functions of package posix in DIR
	guestwork may DIR UID GID [GROUP...]   rights of this user in DIR; see package may
	guestwork model DIR                    execute the operations of standard input in DIR; see model.Serve
	guestwork pace DIR KIND                measure how fast DIR is; see pace.Run
	guestwork locking DIR1 DIR2            lock one file by two directories; see package locking
	guestwork holes DIR                    holes, copies and clones in DIR; see package holes
	guestwork acl4 FILE [ENTRY...]         show or set the list of FILE; see package acl4
	guestwork copy FROM TO                 copy a file by copy_file_range
	guestwork locker DIR                   a process of locking
	guestwork locks DIR NUMBER             lock and count; see locking.Work
	guestwork transact FILE WHO COUNT PAUSE PROGRAM [ARGUMENT...]
	                                       transactions of sqlite3; see package transact
	guestwork soak WRITE-DIR READ-DIR TIME write in one mount, read in another`

var errUsage = errors.New(usage)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "guestwork:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 2 {
		return errUsage
	}
	name, dir, rest := args[0], args[1], args[2:]
	switch {
	case name == "run":
		return workload.Run(dir, out, rest...)
	case name == "edges" && len(rest) == 2:
		call, err := strconv.Atoi(rest[0])
		reply, err2 := strconv.Atoi(rest[1])
		if err != nil || err2 != nil {
			return errUsage
		}
		return workload.Edges(dir, call, reply)
	case name == "manifest" && len(rest) == 0:
		return workload.Manifest(dir, out)
	case name == "posix":
		return posix.Run(dir, out, rest...)
	case name == "may" && len(rest) >= 2:
		return mayAs(dir, rest, out)
	case name == "model" && len(rest) == 0:
		return model.Serve(dir, in, out)
	case name == "hold" && len(rest) == 0:
		return workload.Hold(dir, in, out)
	case name == "block" && len(rest) == 0:
		return workload.Block(dir, in, out)
	case name == "ledger" && len(rest) == 0:
		return workload.Ledger(dir, in, out)
	case name == "pace" && len(rest) == 1:
		return pace.Run(rest[0], dir, out)
	case name == "locking" && len(rest) == 1:
		return locking.Run(dir, rest[0], out)
	case name == "holes" && len(rest) == 0:
		return holes.Run(dir, out)
	case name == "acl4":
		return acl4.Run(dir, rest, out)
	case name == "copy" && len(rest) == 1:
		return holes.Copy(dir, rest[0])
	case name == "locker" && len(rest) == 0:
		return locking.Process(dir, in, out)
	case name == "locks" && len(rest) == 1:
		n, err := strconv.ParseUint(rest[0], 10, 64)
		if err != nil {
			return errUsage
		}
		return locking.Work(dir, n, in, out)
	case name == "transact" && len(rest) >= 4:
		count, err := strconv.Atoi(rest[1])
		pause, err2 := time.ParseDuration(rest[2])
		if err != nil || err2 != nil {
			return errUsage
		}
		return transact.Run(transact.Job{DB: dir, Who: rest[0], Count: count, Pause: pause, Program: rest[3:]}, in, out)
	case name == "soak" && len(rest) == 2:
		d, err := time.ParseDuration(rest[1])
		if err != nil {
			return errUsage
		}
		return workload.Soak(dir, rest[0], d, out)
	default:
		return errUsage
	}
}

// mayAs becomes a user permanently, and tries that user's rights.
func mayAs(dir string, ids []string, out io.Writer) error {
	var n []int
	for _, s := range ids {
		id, err := strconv.Atoi(s)
		if err != nil {
			return errUsage
		}
		n = append(n, id)
	}
	if err := errors.Join(syscall.Setgroups(n[2:]), syscall.Setgid(n[1]), syscall.Setuid(n[0])); err != nil {
		return err
	}
	return may.Try(dir, out)
}
