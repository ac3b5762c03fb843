package idmap

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A hostDatabase is this host's user database. It runs getent, a C library program: a program
// without cgo sees only the users in /etc/passwd.
type hostDatabase struct {
	// run returns a program's output and exit status.
	run func(ctx context.Context, program string, args ...string) (output []byte, status int, err error)
}

func newHost() hostDatabase { return hostDatabase{run: runProgram} }

// maxOutput is the maximum length in bytes of a reply: enough for the greatest number of groups
// that Linux allows a user.
const maxOutput = 1 << 20

var errOutput = errors.New("the output is too long")

// A limitedOutput keeps what a program writes, up to maxOutput bytes.
type limitedOutput struct {
	b      []byte
	isFull bool
}

// Write implements io.Writer.
func (o *limitedOutput) Write(b []byte) (int, error) {
	if len(o.b)+len(b) > maxOutput {
		o.isFull = true
		return 0, errOutput
	}
	o.b = append(o.b, b...)
	return len(b), nil
}

// runProgram runs a program outside the daemon's directory and environment: a database must use
// neither the exports nor any credentials.
func runProgram(ctx context.Context, program string, args ...string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out limitedOutput
	cmd.Stdout, cmd.Dir, cmd.WaitDelay = &out, "/", time.Second
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	err := cmd.Run()
	if out.isFull {
		return nil, 0, errOutput
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() && ctx.Err() == nil {
		return out.b, exit.ExitCode(), nil
	}
	return out.b, 0, err
}

// notFound is getent's exit status for an unknown key.
const notFound = 2

// lookUpEntry returns the fields in a key's entry in a getent database, at least n.
func (h hostDatabase) lookUpEntry(database, key string, n int) (fields []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	out, status, err := h.run(ctx, "getent", database, key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("getent %s: %w", database, err)
	case status == notFound:
		return nil, nil
	case status != 0:
		return nil, fmt.Errorf("getent %s: exit status %d", database, status)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if fields = strings.Split(line, ":"); len(fields) < n {
		return nil, fmt.Errorf("getent %s: a line of %d fields", database, len(fields))
	}
	return fields, nil
}

// databaseName returns the getent database for a kind.
func databaseName(kind Kind) string {
	if kind == Group {
		return "group"
	}
	return "passwd"
}

// Name implements Database.
func (h hostDatabase) Name(kind Kind, id uint32) (string, bool, error) {
	digits := strconv.FormatUint(uint64(id), 10)
	fields, err := h.lookUpEntry(databaseName(kind), digits, 3)
	if err != nil || fields == nil || fields[2] != digits { // a name may be digits too
		return "", false, err
	}
	return fields[0], true, nil
}

// ID implements Database.
func (h hostDatabase) ID(kind Kind, name string) (uint32, bool, error) {
	fields, err := h.lookUpEntry(databaseName(kind), name, 3)
	if err != nil || fields == nil || !isSameName(name, fields[0]) {
		return 0, false, err
	}
	id, err := parseID(fields[2])
	return id, err == nil, err
}

// User implements Database.
func (h hostDatabase) User(name string) (u Account, found bool, err error) {
	fields, err := h.lookUpEntry("passwd", name, 4)
	if err != nil || fields == nil || !isSameName(name, fields[0]) {
		return u, false, err
	}
	if u.UID, err = parseID(fields[2]); err != nil {
		return Account{}, false, err
	}
	if u.GID, err = parseID(fields[3]); err != nil {
		return Account{}, false, err
	}
	if u.Groups, err = h.userGroups(fields[0]); err != nil {
		return Account{}, false, err
	}
	if !slices.Contains(u.Groups, u.GID) {
		u.Groups = append(u.Groups, u.GID)
	}
	return u, true, nil
}

// userGroups returns a user's groups. name is the name that the database has returned.
func (h hostDatabase) userGroups(name string) (list []uint32, err error) {
	if !isPlainName([]byte(name)) {
		return nil, fmt.Errorf("getent passwd: the name %.40q", name)
	}
	fields, err := h.lookUpEntry("initgroups", name, 1)
	if err != nil || fields == nil {
		return nil, err
	}
	words := strings.Fields(fields[0])
	if len(words) == 0 || !isSameName(name, words[0]) {
		return nil, errors.New("getent initgroups: another user's groups")
	}
	for _, word := range words[1:] {
		id, err := parseID(word)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}

func parseID(word string) (uint32, error) {
	n, err := strconv.ParseUint(word, 10, 32)
	if err == nil && !isValidID(n) {
		err = fmt.Errorf("%s is no user's or group's number", word)
	}
	return uint32(n), err
}
