package exports

import (
	"fmt"
	"strconv"
	"strings"
)

// flags are the options without a value. Options without effect concern
// behaviour that this server always, or never, has.
var flags = map[string]func(o *Options){
	"async":            func(o *Options) { o.Async = true },
	"sync":             func(o *Options) { o.Async = false },
	"insecure":         func(o *Options) { o.Insecure = true },
	"secure":           func(o *Options) { o.Insecure = false },
	"subtree_check":    func(o *Options) { o.SubtreeCheck = true },
	"no_subtree_check": func(o *Options) { o.SubtreeCheck = false },
	"crossmnt":         func(o *Options) { o.CrossMnt = true },
	"nocrossmnt":       func(o *Options) { o.CrossMnt = false },
	"nohide":           func(o *Options) { o.NoHide = true },
	"hide":             func(o *Options) { o.NoHide = false },
	"exclusive":        func(o *Options) { o.Exclusive = true },

	"secure_locks":   func(o *Options) { o.InsecureLocks = false },
	"insecure_locks": func(o *Options) { o.InsecureLocks = true },
	"auth_nlm":       func(o *Options) { o.InsecureLocks = false },
	"no_auth_nlm":    func(o *Options) { o.InsecureLocks = true },

	"wdelay":    func(*Options) {}, // the kernel's page cache gathers writes
	"no_wdelay": func(*Options) {},
	"no_pnfs":   func(*Options) {}, // of NFS version 4.1
	"acl":       func(*Options) {}, // ACLs are always served
}

// values are the options with a value. Their errors say how to correct it.
var values = map[string]func(o *Options, value string) error{
	"fsid": func(o *Options, v string) error {
		f, ok := ParseFSID(v)
		if !ok {
			return fmt.Errorf("%q is neither a number below 4294967296, nor a UUID, nor root; write fsid=1 or the like", v)
		}
		o.FSID = f
		return nil
	},
	"xprtsec": func(o *Options, v string) (err error) {
		o.Xprtsec, err = ParseTransports(v)
		return err
	},
	"refer": func(o *Options, v string) (err error) {
		o.Refer, err = ParseLocations(v)
		o.Replicas = Locations{}
		return err
	},
	"replicas": func(o *Options, v string) (err error) {
		o.Replicas, err = ParseLocations(v)
		o.Refer = Locations{}
		return err
	},
}

// rightFlags are the options without a value that may differ between flavours.
var rightFlags = map[string]func(r *Rights){
	"ro":             func(r *Rights) { r.ReadOnly = true },
	"rw":             func(r *Rights) { r.ReadOnly = false },
	"no_root_squash": func(r *Rights) { r.NoRootSquash = true },
	"root_squash":    func(r *Rights) { r.NoRootSquash = false },
	"all_squash":     func(r *Rights) { r.AllSquash = true },
	"no_all_squash":  func(r *Rights) { r.AllSquash = false },
}

// rightIDs are the options with a number that may differ between flavours.
var rightIDs = map[string]func(r *Rights, id ID){
	"anonuid": func(r *Rights, id ID) { r.AnonUID = id },
	"anongid": func(r *Rights, id ID) { r.AnonGID = id },
}

// refused are options of exports(5) that promise features this server lacks.
var refused = map[string]string{
	"mp":             "this server does not check for mount points; remove it, and start the server after the mount",
	"mountpoint":     "this server does not check for mount points; remove it, and start the server after the mount",
	"no_acl":         "it has no effect here; remove it",
	"pnfs":           "it belongs to NFS version 4.1, and this server has 3; remove it",
	"security_label": "it belongs to NFS version 4.2, and this server has 3; remove it",
}

// parseID parses a number as exportfs does, which has long accepted -2 for a
// user. -1 is refused: system calls take it for "unchanged".
func parseID(v string) (ID, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < -2 || n == -1 || n >= 1<<32-1 {
		return ID{}, fmt.Errorf("%q is not the number of a user or group; write one of 0 to 4294967294", v)
	}
	return NewID(uint32(n)), nil
}

// An optionList applies the options of one list to o, one after the other. As
// in nfs-utils, a flavour begins with the rights of the options before its first
// sec=, and options count for the flavours of the last sec= alone.
type optionList struct {
	o      *Options
	chosen [maxFlavors]bool // flavours of the last sec=, by their index in o.Sec
	secs   int              // number of sec=
}

// set applies one option.
func (l *optionList) set(option string) error {
	name, value, valued := strings.Cut(option, "=")
	if why, ok := refused[name]; ok {
		return fmt.Errorf("option %q is not served: %s", name, why)
	}
	if f, ok := flags[name]; ok && !valued {
		f(l.o)
		return nil
	}
	if f, ok := rightFlags[name]; ok && !valued {
		l.right(f)
		return nil
	}
	f, ok := values[name]
	number, isNumber := rightIDs[name]
	switch {
	case ok && valued:
		return f(l.o, value)
	case isNumber && valued:
		id, err := parseID(value)
		l.right(func(r *Rights) { number(r, id) })
		return err
	case name == "sec" && valued:
		return l.secure(value)
	case ok, isNumber, name == "sec":
		return fmt.Errorf("option %q needs a value; write %s=VALUE", name, name)
	case flags[name] != nil, rightFlags[name] != nil:
		return fmt.Errorf("option %q has no value; write %s", name, name)
	case option == "":
		return fmt.Errorf("no option between two commas; remove one comma")
	case strings.ContainsAny(option, " \t"):
		return fmt.Errorf("option %q contains a blank; remove it", option)
	default:
		return fmt.Errorf("unknown option %q; correct it (docs/exports.md has them all)", option)
	}
}

// right changes the rights of the chosen flavours, and those with which later
// flavours begin. Before the first sec= of a list, the option counts for all
// flavours that the default options have named.
func (l *optionList) right(change func(r *Rights)) {
	r := l.o.rights()
	change(&r)
	l.o.setRights(r)
	for i := range l.o.Sec.n {
		if l.secs == 0 || l.chosen[i] {
			change(&l.o.Sec.list[i].rights)
		}
	}
}

// secure is sec=. The first of a list replaces the flavours of the default
// options.
func (l *optionList) secure(value string) error {
	flavors, err := ParseFlavors(value)
	if err != nil {
		return err
	}
	if l.secs == 0 {
		l.o.Sec = Security{}
	}
	l.secs++
	l.chosen = [maxFlavors]bool{}
	for _, f := range flavors {
		l.chosen[l.o.Sec.add(f, l.o.rights())] = true
	}
	return nil
}

// A Client is one entry after a path: hosts, and their options.
type Client struct {
	Host    Host
	Options Options
}

// Everyone returns the clients of an export that treats all hosts alike.
func Everyone(o Options) []Client { return []Client{{Options: o}} }

// String returns c in the syntax of exports(5).
func (c Client) String() string { return c.Host.String() + "(" + c.Options.String() + ")" }

// Nobody is the user and group of callers without an identity, unless anonuid
// and anongid are set.
const Nobody = 65534

// An ID is the number of a user or a group. The zero value is Nobody's.
type ID struct{ xor uint32 }

// NewID returns the ID of number n.
func NewID(n uint32) ID { return ID{n ^ Nobody} }

// Number returns the number of i.
func (i ID) Number() uint32 { return i.xor ^ Nobody }

// String returns the number in decimal.
func (i ID) String() string { return strconv.FormatUint(uint64(i.Number()), 10) }
