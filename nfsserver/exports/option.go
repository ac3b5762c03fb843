package exports

import (
	"fmt"
	"strconv"
	"strings"
)

// flagOptions are the options without a value. Options without effect concern behavior that
// this server always, or never, has.
var flagOptions = map[string]func(o *Options){
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
	"no_pnfs":   func(*Options) {}, // an NFSv4.1 feature
	"acl":       func(*Options) {}, // ACLs are always served
}

// valueOptions are the options with a value. Their errors contain a remedy.
var valueOptions = map[string]func(o *Options, value string) error{
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

// rightFlags are the options without a value that may differ between flavors.
var rightFlags = map[string]func(r *Rights){
	"ro":             func(r *Rights) { r.ReadOnly = true },
	"rw":             func(r *Rights) { r.ReadOnly = false },
	"no_root_squash": func(r *Rights) { r.NoRootSquash = true },
	"root_squash":    func(r *Rights) { r.NoRootSquash = false },
	"all_squash":     func(r *Rights) { r.AllSquash = true },
	"no_all_squash":  func(r *Rights) { r.AllSquash = false },
}

// rightIDs are the options with a number that may differ between flavors.
var rightIDs = map[string]func(r *Rights, id ID){
	"anonuid": func(r *Rights, id ID) { r.AnonUID = id },
	"anongid": func(r *Rights, id ID) { r.AnonGID = id },
}

// unsupportedOptions are exports(5) options for features that this server lacks.
var unsupportedOptions = map[string]string{
	"mp":             "this server does not check for mount points; remove it, and start the server after the mount",
	"mountpoint":     "this server does not check for mount points; remove it, and start the server after the mount",
	"no_acl":         "it has no effect here; remove it",
	"pnfs":           "this server does not support pNFS; remove it",
	"security_label": "this server does not support security labels; remove it",
}

// parseID parses a number as exportfs does, which has long accepted -2 for a user. It rejects
// -1: system calls take it to mean "unchanged".
func parseID(v string) (ID, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < -2 || n == -1 || n >= 1<<32-1 {
		return ID{}, fmt.Errorf("%q is not the number of a user or group; write one of 0 to 4294967294", v)
	}
	return NewID(uint32(n)), nil
}

// An optionList applies the options in one list to o, one after the other. As in nfs-utils, a
// flavor begins with the rights from the options before its first sec=, and options apply only
// to the flavors in the last sec=.
type optionList struct {
	o             *Options
	chosenFlavors [maxFlavors]bool // flavors in the last sec=, by their index in o.Sec
	secCount      int              // number of sec= so far
}

// applyOption applies one option.
func (l *optionList) applyOption(option string) error {
	name, value, valued := strings.Cut(option, "=")
	if why, ok := unsupportedOptions[name]; ok {
		return fmt.Errorf("option %q is not served: %s", name, why)
	}
	if f, ok := flagOptions[name]; ok && !valued {
		f(l.o)
		return nil
	}
	if f, ok := rightFlags[name]; ok && !valued {
		l.changeRights(f)
		return nil
	}
	f, ok := valueOptions[name]
	number, isNumber := rightIDs[name]
	switch {
	case ok && valued:
		return f(l.o, value)
	case isNumber && valued:
		id, err := parseID(value)
		l.changeRights(func(r *Rights) { number(r, id) })
		return err
	case name == "sec" && valued:
		return l.applySec(value)
	case ok, isNumber, name == "sec":
		return fmt.Errorf("option %q needs a value; write %s=VALUE", name, name)
	case flagOptions[name] != nil, rightFlags[name] != nil:
		return fmt.Errorf("option %q has no value; write %s", name, name)
	case option == "":
		return fmt.Errorf("no option between two commas; remove one comma")
	case strings.ContainsAny(option, " \t"):
		return fmt.Errorf("option %q contains a blank; remove it", option)
	default:
		return fmt.Errorf("unknown option %q; correct it (nfsrdma-exports(5) has them all)", option)
	}
}

// changeRights changes the rights for the chosen flavors, and those with which later flavors
// begin. Before the first sec= in a list, the option applies to all flavors that the default
// options have named.
func (l *optionList) changeRights(change func(r *Rights)) {
	r := l.o.ownRights()
	change(&r)
	l.o.setRights(r)
	for i := range l.o.Sec.n {
		if l.secCount == 0 || l.chosenFlavors[i] {
			change(&l.o.Sec.list[i].rights)
		}
	}
}

// applySec applies sec=. The first in a list replaces the flavors from the default options.
func (l *optionList) applySec(value string) error {
	flavors, err := ParseFlavors(value)
	if err != nil {
		return err
	}
	if l.secCount == 0 {
		l.o.Sec = Security{}
	}
	l.secCount++
	l.chosenFlavors = [maxFlavors]bool{}
	for _, f := range flavors {
		l.chosenFlavors[l.o.Sec.addFlavor(f, l.o.ownRights())] = true
	}
	return nil
}

// A Client is one entry after a path: hosts, and their options.
type Client struct {
	Host    Host
	Options Options
}

// Everyone returns the clients for an export that treats all hosts alike.
func Everyone(o Options) []Client { return []Client{{Options: o}} }

// String returns c in exports(5) syntax.
func (c Client) String() string { return c.Host.String() + "(" + c.Options.String() + ")" }

// Nobody is the user and group for callers without an identity, unless anonuid and anongid are
// set.
const Nobody = 65534

// An ID is a user's or group's number. The zero value is Nobody's.
type ID struct{ xor uint32 }

// NewID returns the ID for a number.
func NewID(n uint32) ID { return ID{n ^ Nobody} }

// Number returns i's number.
func (i ID) Number() uint32 { return i.xor ^ Nobody }

// String returns the number in decimal.
func (i ID) String() string { return strconv.FormatUint(uint64(i.Number()), 10) }
