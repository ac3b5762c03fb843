package mountopt

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmpriv"
)

// A setter sets an option to a value, or "" if the option has none.
type setter func(value string) error

const (
	otherTransport = `this mounts over RDMA and TCP: "mount -t nfs" does so over UDP`
	otherVersion   = `this mounts NFS version 3: "mount -t nfs" has others`
)

var (
	lookupCaches = map[string]Lookup{
		"all": LookupAll, "none": LookupNone, "pos": LookupPositive, "positive": LookupPositive,
	}
	localLocks = map[string][2]bool{"all": {true, true}, "posix": {true, false}, "flock": {false, true}, "none": {}}
)

// setTo returns a setter that sets p to v.
func setTo[T any](p *T, v T) setter {
	return func(string) error {
		*p = v
		return nil
	}
}

// setNumber returns a setter that sets each element in to to a number.
func setNumber(least, most int, to ...*int) setter {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("not a number between %d and %d", least, most)
		}
		for _, p := range to {
			*p = n
		}
		return nil
	}
}

// setTransferSize returns a setter for a byte count, rounded as Linux rounds it.
func setTransferSize(p *int) setter {
	return func(value string) error {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("not a number of bytes between 1 and %d", uint32(1<<32-1))
		}
		*p = int(min(max(n-n%PageSize, PageSize), maxTransfer))
		return nil
	}
}

func setText(p *string) setter {
	return func(value string) error {
		*p = strings.Trim(value, "[]") // brackets around an IPv6 address
		return nil
	}
}

// setPath returns a setter for a file name with any characters.
func setPath(p *string) setter {
	return func(value string) error {
		*p = value
		return nil
	}
}

func setFromMap[T any](p *T, words map[string]T) setter {
	return func(value string) error {
		v, ok := words[value]
		if !ok {
			return fmt.Errorf("not one of %s", strings.Join(slices.Sorted(maps.Keys(words)), ", "))
		}
		*p = v
		return nil
	}
}

// acceptOnly returns a setter that accepts the values that apply anyway, and
// rejects all others.
func acceptOnly(why string, words ...string) setter {
	return func(value string) error {
		if !slices.Contains(words, value) {
			return errors.New(why)
		}
		return nil
	}
}

func reject(why string) setter { return func(string) error { return errors.New(why) } }

// useTransport returns a setter that selects a transport.
func (o *Options) useTransport(word string) setter {
	return func(string) error { return o.Proto.Set(word) }
}

// setProto parses the option proto, whose value is the netid for either address
// family.
func (o *Options) setProto(value string) error {
	switch word := strings.TrimSuffix(value, "6"); word {
	case "rdma", "tcp":
		return o.Proto.Set(word)
	}
	return errors.New(otherTransport)
}

// restrictForUsers returns a setter that restricts a mount by ordinary users, as
// mount(8) does.
func (o *Options) restrictForUsers(noExec bool) setter {
	return func(string) error {
		o.NoSUID, o.NoDev, o.NoExec = true, true, o.NoExec || noExec
		return nil
	}
}

func (o *Options) setInline(value string) error {
	if err := o.Inline.Set(value); err != nil {
		return err
	}
	if *o.Inline < cmpriv.MinSize || *o.Inline > cmpriv.MaxSize {
		return fmt.Errorf("not between %d and %d bytes", cmpriv.MinSize, cmpriv.MaxSize)
	}
	return nil
}

// setLocalLock parses the option local_lock.
func (o *Options) setLocalLock(value string) error {
	var local [2]bool
	err := setFromMap(&local, localLocks)(value)
	if err == nil {
		o.LocalPOSIX, o.LocalFlock = local[0], local[1]
	}
	return err
}

// setNotice parses the option notice.
func (o *Options) setNotice(value string) (err error) {
	o.NoticeFrom = netip.Addr{}
	if value != "" {
		if o.NoticeFrom, err = netip.ParseAddr(value); err != nil {
			return errors.New("not an address of this host")
		}
	}
	o.Notice = true
	return nil
}

// ignoredOptions returns options that have no effect here: options only for
// mount(8) and fstab(5), options that the server decides, and options that apply
// anyway.
func ignoredOptions(names ...string) (rows []option) {
	for _, name := range names {
		rows = append(rows, option{name: name, value: optionalValue})
	}
	rows[len(rows)-1].help = "accepted without effect, like all options that begin with x-"
	return rows
}
