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

// A host is the user database of this host. It asks by getent, a program of the C
// library: a program without cgo sees no other users than those of /etc/passwd.
type host struct {
	// run returns the output of a program, and its exit status.
	run func(ctx context.Context, program string, args ...string) (output []byte, status int, err error)
}

func newHost() host { return host{run: run} }

// maxOutput is the longest answer in bytes: the greatest number of groups that
// Linux allows a user.
const maxOutput = 1 << 20

var errOutput = errors.New("the answer is too long")

// An output keeps what a program writes, up to maxOutput bytes.
type output struct {
	b    []byte
	full bool
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	if len(o.b)+len(b) > maxOutput {
		o.full = true
		return 0, errOutput
	}
	o.b = append(o.b, b...)
	return len(b), nil
}

// run runs a program apart from the daemon's directory and environment: a database
// must neither use the exports nor anybody's credentials.
func run(ctx context.Context, program string, args ...string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out output
	cmd.Stdout, cmd.Dir, cmd.WaitDelay = &out, "/", time.Second
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	err := cmd.Run()
	if out.full {
		return nil, 0, errOutput
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() && ctx.Err() == nil {
		return out.b, exit.ExitCode(), nil
	}
	return out.b, 0, err
}

// notFound is getent's exit status if a key is unknown.
const notFound = 2

// entry returns the fields of the entry of a key in a database of getent, at least
// n.
func (h host) entry(database, key string, n int) (fields []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
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

// databaseOf returns the database of getent for a kind.
func databaseOf(kind Kind) string {
	if kind == Group {
		return "group"
	}
	return "passwd"
}

// Name implements Database.
func (h host) Name(kind Kind, id uint32) (string, bool, error) {
	digits := strconv.FormatUint(uint64(id), 10)
	fields, err := h.entry(databaseOf(kind), digits, 3)
	if err != nil || fields == nil || fields[2] != digits { // a name may be digits too
		return "", false, err
	}
	return fields[0], true, nil
}

// ID implements Database.
func (h host) ID(kind Kind, name string) (uint32, bool, error) {
	fields, err := h.entry(databaseOf(kind), name, 3)
	if err != nil || fields == nil || !sameName(name, fields[0]) {
		return 0, false, err
	}
	id, err := parseID(fields[2])
	return id, err == nil, err
}

// User implements Database.
func (h host) User(name string) (u Account, found bool, err error) {
	fields, err := h.entry("passwd", name, 4)
	if err != nil || fields == nil || !sameName(name, fields[0]) {
		return u, false, err
	}
	if u.UID, err = parseID(fields[2]); err != nil {
		return Account{}, false, err
	}
	if u.GID, err = parseID(fields[3]); err != nil {
		return Account{}, false, err
	}
	if u.Groups, err = h.groups(fields[0]); err != nil {
		return Account{}, false, err
	}
	if !slices.Contains(u.Groups, u.GID) {
		u.Groups = append(u.Groups, u.GID)
	}
	return u, true, nil
}

// groups returns the groups of a user, in the database's words.
func (h host) groups(name string) (list []uint32, err error) {
	if !plain([]byte(name)) {
		return nil, fmt.Errorf("getent passwd: the name %.40q", name)
	}
	fields, err := h.entry("initgroups", name, 1)
	if err != nil || fields == nil {
		return nil, err
	}
	words := strings.Fields(fields[0])
	if len(words) == 0 || !sameName(name, words[0]) {
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
	if err == nil && !validID(n) {
		err = fmt.Errorf("%s is no user's or group's number", word)
	}
	return uint32(n), err
}
