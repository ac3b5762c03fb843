package main

import (
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// exportSpec is one argument of serve, or one directory in an exports file.
type exportSpec struct {
	dir      string
	memory   int64  // size of a file system in memory that dir names, in bytes; 0: a directory
	name     string // path that clients mount
	clients  []exports.Client
	fsid     exports.FSID
	position string // in the file, for errors
	fault    error  // the reason why the export cannot be served, besides its directory; or nil
	broken   bool   // fault is an error in the file, so that the clients are unknown
	mountID  uint64 // of a submount, see findSubmounts; otherwise 0

	isAutomount bool   // a submount that is mounted when a client uses it
	isTriggered bool   // a submount that an automount has mounted
	subvolID    uint64 // identifies a subvolume, see findSubvolumes; otherwise 0
}

// parseExports parses DIR[=/EXPORT] arguments. The last "=/" separates the two parts. A
// directory with "=/" in its name can still be served if its export has a name.
func parseExports(args []string) ([]exportSpec, error) {
	seen := make(map[string]string)
	var list []exportSpec
	for _, arg := range args {
		e, err := parseExport(arg)
		if err != nil {
			return nil, err
		}
		if other, ok := seen[e.name]; ok {
			return nil, fmt.Errorf("%s and %s are both exported as %s: give one of them another name, DIR=/EXPORT", other, e.dir, e.name)
		}
		seen[e.name] = e.dir
		list = append(list, e)
	}
	return list, nil
}

func parseExport(arg string) (exportSpec, error) {
	dir, name := arg, ""
	if i := strings.LastIndex(arg, "=/"); i >= 0 {
		dir, name = arg[:i], arg[i+1:]
	}
	if dir == "" {
		return exportSpec{}, fmt.Errorf("%q names no directory: write DIR or DIR=/EXPORT", arg)
	}
	memory, err := parseMemory(dir)
	if err != nil {
		return exportSpec{}, err
	}
	if name == "" && memory > 0 {
		return exportSpec{}, fmt.Errorf("%s has no name of its own: write %s=/EXPORT, or ./%s for a directory", dir, dir, dir)
	}
	if name == "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return exportSpec{}, err
		}
		name = abs
	}
	if path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return exportSpec{}, fmt.Errorf("export name %q is not a plain absolute path: %q is", name, path.Clean(name))
	}
	if len(name) > mount3.PathLen {
		return exportSpec{}, fmt.Errorf("export name of %d bytes for %s: clients can send at most %d bytes: write DIR=/EXPORT", len(name), dir, mount3.PathLen)
	}
	return exportSpec{dir: dir, memory: memory, name: name}, nil
}

// formatExportNames formats export names for the ready line. Bytes that would end or split a
// name are escaped as in /proc/mounts.
func formatExportNames(list []exportSpec) string {
	var b strings.Builder
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		for _, c := range []byte(e.name) {
			if c <= ' ' || c == ',' || c == '\\' || c == 0x7f {
				fmt.Fprintf(&b, `\%03o`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// parseNets parses the addresses and networks in a flag.
func parseNets(flag string, words []string) ([]netip.Prefix, error) {
	var nets []netip.Prefix
	for _, w := range words {
		n, err := parseNet(w)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is neither an address nor a network such as 192.0.2.0/24 or 2001:db8::/32", flag, w)
		}
		nets = append(nets, n)
	}
	return nets, nil
}

func parseNet(w string) (netip.Prefix, error) {
	if strings.Contains(w, "/") {
		n, err := netip.ParsePrefix(w)
		return n.Masked(), err
	}
	a, err := netip.ParseAddr(w)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("not an address: %s", w)
	}
	a = a.Unmap() // as clients' addresses are
	return netip.PrefixFrom(a, a.BitLen()), nil
}
