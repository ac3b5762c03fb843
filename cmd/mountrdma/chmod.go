package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

func (a *app) newChmod() *cobra.Command {
	var change modeChange
	var urls []location
	var recursive bool
	cmd := &cobra.Command{
		Use:   "chmod [-R] MODE URL...",
		Short: "Change the permissions of files and directories",
		Long: `Change the permissions of files and directories. MODE is octal, or a list such as
u+x,go-w or a=rX, as in chmod(1): u, g, o and a are user, group, others and all;
r, w, x are the permissions, X is x for directories and what is executable already,
s the set-ID bits, and t the sticky bit. Write -x as a-x. With -R, symbolic links
below a directory are left alone.`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) < 2 {
				return errors.New("chmod needs a mode and a URL: MODE URL")
			}
			if change, err = parseMode(args[0], a.umask); err != nil {
				return err
			}
			return a.parseURLs(&urls)(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.forEachURL(ctx, urls, func(r remote) error {
				node, err := r.fs.Stat(ctx, r.rest)
				if err != nil {
					return r.explainError(err)
				}
				set := func(o object) error {
					if o.attr.Type == nfs3.TypeLnk {
						return nil
					}
					mode := nfs3.OptUint32{Set: true, Value: change.apply(o.attr.Mode, o.attr.Type == nfs3.TypeDir)}
					return o.explainError(r.fs.File(o.handle).SetAttr(ctx, nfs3.SetAttr{Mode: mode}))
				}
				o := object{remote: r, handle: node.Handle, attr: node.Attr}
				if !recursive {
					return set(o)
				}
				return (&treeWalk{app: a, before: set}).run(ctx, o)
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "change directories and everything below them")
	return cmd
}

// A modeChange is a list of changes of mode bits.
type modeChange []modeClause

// A modeClause sets, adds or removes bits.
type modeClause struct {
	op       byte // '=', '+' or '-'
	who      uint32
	clear    uint32 // with '=': the bits that are replaced
	bits     uint32 // for each of user, group and others
	ifSearch bool   // X
}

// parseMode parses a mode as chmod(1) does, without copies of other classes' bits (g=u).
// Its errors are usage errors.
func parseMode(word string, umask uint32) (modeChange, error) {
	if n, err := strconv.ParseUint(word, 8, 16); err == nil && n <= 0o7777 {
		return modeChange{{op: '=', who: 0o7777, clear: 0o7777, bits: uint32(n)}}, nil
	}
	var list modeChange
	for clause := range strings.SplitSeq(word, ",") {
		i := strings.IndexAny(clause, "+-=")
		if i < 0 || strings.Trim(clause[:i], "ugoa") != "" || strings.Trim(clause[i+1:], "rwxXst") != "" {
			return nil, fmt.Errorf("%q is not a mode: write octal digits such as 640, or changes such as u+x,go-w", word)
		}
		c := modeClause{op: clause[i]}
		for _, w := range clause[:i] {
			c.who |= map[rune]uint32{'u': 0o4700, 'g': 0o2070, 'o': 0o1007, 'a': 0o7777}[w]
		}
		c.clear = c.who
		if i == 0 {
			c.who, c.clear = 0o7777&^umask, 0o7777
		}
		for _, b := range clause[i+1:] {
			c.bits |= map[rune]uint32{'r': 0o444, 'w': 0o222, 'x': 0o111, 's': 0o6000, 't': 0o1000}[b]
			c.ifSearch = c.ifSearch || b == 'X'
		}
		if c.bits&0o1000 != 0 { // t needs no class
			c.who |= 0o1000
		}
		list = append(list, c)
	}
	return list, nil
}

// apply returns the changed mode.
func (list modeChange) apply(mode uint32, isDir bool) uint32 {
	for _, c := range list {
		bits := c.bits
		if c.ifSearch && (isDir || mode&0o111 != 0) {
			bits |= 0o111
		}
		switch bits &= c.who; c.op {
		case '+':
			mode |= bits
		case '-':
			mode &^= bits
		default:
			mode = mode&^c.clear | bits
		}
	}
	return mode & 0o7777
}
