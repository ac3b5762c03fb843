package mountopt

import "strings"

const (
	helpIndent = 4
	helpWidth  = 100 // columns
)

// Help describes all options.
func (o *Options) Help() string {
	var b strings.Builder
	var names []string
	for _, row := range o.allOptions() {
		name := row.name
		if row.value != "" && row.value != optionalValue {
			name += "=" + row.value
		}
		names = append(names, name)
		if row.help != "" {
			wrapText(&b, helpIndent, "  "+strings.Join(names, ", "))
			wrapText(&b, 2*helpIndent, strings.Repeat(" ", 2*helpIndent)+row.help)
			names = nil
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Words returns the options that have an effect or are accepted: with each of its
// values if they are fixed, else with "=" at the end if it needs a value. It calls
// setters: o must not be used afterwards.
func (o *Options) Words() (words []string) {
	for _, row := range o.allOptions() {
		switch {
		case row.value == "" || row.value == optionalValue:
			if row.set == nil || row.set("") == nil {
				words = append(words, row.name)
			}
		case row.name == "sec":
			for _, value := range secFlavors {
				words = append(words, row.name+"="+value)
			}
		case strings.Contains(row.value, "|"):
			for value := range strings.SplitSeq(row.value, "|") {
				words = append(words, row.name+"="+value)
			}
		default:
			words = append(words, row.name+"=")
		}
	}
	return words
}

// wrapText writes text as lines. All lines except the first are indented.
func wrapText(b *strings.Builder, indent int, text string) {
	for len(text) > helpWidth {
		i := strings.LastIndexByte(text[:helpWidth], ' ')
		b.WriteString(text[:i] + "\n")
		text = strings.Repeat(" ", indent) + text[i+1:]
	}
	b.WriteString(text + "\n")
}

// An option is a row in the table of options.
type option struct {
	name  string
	value string // placeholder after "=" in the help; "": no value allowed
	set   setter // nil: the option has no effect here
	help  string // "": the next row's help covers both
}

// optionalValue marks an option that may or may not have a value.
const optionalValue = "[...]"

// allOptions returns all options. Their setters set o.
func (o *Options) allOptions() []option {
	return append([]option{
		{"ro", "", setTo(&o.ReadOnly, true), ""},
		{"rw", "", setTo(&o.ReadOnly, false), "mount read-only; or read-write, the default"},
		{"hard", "", setTo(&o.Soft, false), ""},
		{"soft", "", setTo(&o.Soft, true), ""},
		{"softerr", "", setTo(&o.Soft, true), "calls wait forever for an unreachable server (hard, the default); or fail after the time that timeo and retrans set"},
		{"timeo", "N", setNumber(1, maxTimeo, &o.Timeo), "tenths of a second of silence after which a connection is replaced (600)"},
		{"retrans", "N", setNumber(0, maxRetrans, &o.Retrans), "with soft, calls fail when the server has been unreachable for N+1 times timeo, at most 10 minutes (2)"},
		{"rsize", "N", setTransferSize(&o.ReadSize), ""},
		{"wsize", "N", setTransferSize(&o.WriteSize), "maximum size of a READ and of a WRITE in bytes, a multiple of 4096, at most 1 MiB (the server's limit)"},
		{"nconnect", "N", setNumber(1, maxConnect, &o.Connections), "connections to the server, used in turn (1)"},
		{"port", "N", setNumber(1, maxPort, &o.Port), "the server's port (20049, and 2049 with proto=tcp)"},
		{"mountport", "N", setNumber(1, maxPort, &o.MountPort), ""},
		{"mounthost", "HOST", setText(&o.MountHost), ""},
		{"mountaddr", "ADDR", setText(&o.MountHost), "port and host of the MOUNT service on TCP; without them it is searched for"},
		{"acregmin", "N", setNumber(0, maxSeconds, &o.ACRegMin), ""},
		{"acregmax", "N", setNumber(0, maxSeconds, &o.ACRegMax), ""},
		{"acdirmin", "N", setNumber(0, maxSeconds, &o.ACDirMin), ""},
		{"acdirmax", "N", setNumber(0, maxSeconds, &o.ACDirMax), ""},
		{
			"actimeo", "N", setNumber(0, maxSeconds, &o.ACRegMin, &o.ACRegMax, &o.ACDirMin, &o.ACDirMax),
			"minimum and maximum time in seconds to cache attributes of files (acreg: 3, 60) and directories (acdir: 30, 60); actimeo sets all four",
		},
		{"ac", "", setTo(&o.NoAC, false), ""},
		{"noac", "", setTo(&o.NoAC, true), "cache attributes for a time, the default; or never, and send writes to the server at once"},
		{"async", "", setTo(&o.Sync, false), ""},
		{"sync", "", setTo(&o.Sync, true), "async is the default; sync has the effect of noac"},
		{"deleg", "", setTo(&o.NoDeleg, false), ""},
		{"nodeleg", "", setTo(&o.NoDeleg, true), "use delegations: cached objects need no call until the server (nfsrdmad) recalls them; or do not. The default is deleg, and nodeleg with noac or sync"},
		{"lookupcache", "all|positive|none", setFromMap(&o.Lookup, lookupCaches), "which names are cached: existing and missing ones (all), only existing ones (positive), or none"},
		{"nosuid", "", setTo(&o.NoSUID, true), ""},
		{"suid", "", setTo(&o.NoSUID, false), ""},
		{"allow_suid", "", setTo(&o.NoSUID, false), ""},
		{"nodev", "", setTo(&o.NoDev, true), ""},
		{"dev", "", setTo(&o.NoDev, false), ""},
		{"allow_dev", "", setTo(&o.NoDev, false), "ignore set-user-ID bits and device files on the server, the default; or honor them, on root's mounts only (mount(8) does not pass suid and dev on: give it allow_suid and allow_dev)"},
		{"exec", "", setTo(&o.NoExec, false), ""},
		{"noexec", "", setTo(&o.NoExec, true), "allow programs to be run, the default; or do not"},
		{"user", optionalValue, o.restrictForUsers(true), ""},
		{"users", "", o.restrictForUsers(true), ""},
		{"owner", "", o.restrictForUsers(false), ""},
		{"group", "", o.restrictForUsers(false), "imply nosuid and nodev; user and users also imply noexec"},
		{"allow_other", "", setTo(&o.AllowOther, true), "all users of this host may use the mount, as they always may if root mounts"},
		{"lock", "", setTo(&o.NoLock, false), ""},
		{"nolock", "", setTo(&o.NoLock, true), "lock files at the server if it has a lock manager, the default; or on this host only"},
		{"local_lock", "all|flock|posix|none", o.setLocalLock, "which locks hold on this host only: those of flock(2), those of fcntl(2) (posix), both (all), or none (none)"},
		{"fg", "", setTo(&o.Background, false), ""},
		{"bg", "", setTo(&o.Background, true), "if the first attempt fails, exit with an error, the default; or retry in the background"},
		{"retry", "N", setNumber(0, maxRetry, &o.retry), "minutes to retry while the server is unreachable (fg 2, bg 10000); 0 tries only once"},
		{"nonotice", "", setTo(&o.Notice, false), ""},
		{"notice", optionalValue, o.setNotice, "with notice, reconnect as soon as the server (nfsrdmad --discover) announces over RoCE that it has restarted; it sends the notice to UDP port 4791 at this host's address ADDR (notice=ADDR). The default is nonotice"},
		{"crc", o.CRC.Type(), o.CRC.Set, ""},
		{"markers", o.Markers.Type(), o.Markers.Set, ""},
		{"noextensions", "", setTo(o.NoExtensions, true), "same as the flags --crc, --markers and --no-extensions"},
		{"inline", "SIZE", o.setInline, "maximum size of a message sent without RDMA (4KiB)"},
		{"credits", "N", setNumber(1, MaxCredits, o.Credits), "maximum number of calls in flight (128)"},
		{"rdma", "", o.useTransport("rdma"), ""},
		{"tcp", "", o.useTransport("tcp"), ""},
		{"proto", "rdma|rdma6|tcp|tcp6", o.setProto, "send calls over RDMA, the default; or over TCP, without delegations"},
		{"mountproto", "tcp|tcp6", acceptOnly("MOUNT is used on the connection of NFS and over TCP only", "tcp", "tcp6"), ""},
		{"vers", "3", acceptOnly(otherVersion, "3"), ""},
		{"nfsvers", "3", acceptOnly(otherVersion, "3"), ""},
		{"v3", "", nil, ""},
		{"mountvers", "3", acceptOnly("MOUNT has version 3 here", "3"), "accepted, with no other values: NFS and MOUNT have version 3, and MOUNT uses the NFS connection or TCP"},
		{"sec", o.Sec.Type(), o.Sec.Set, "security flavors; the first one that the export allows is used: sys (the user's number), krb5 (Kerberos), krb5i (with integrity protection), krb5p (with encryption). The default is the first flavor in the export's list that this host can use; if the list also has sys, a Kerberos flavor is used only if the user who mounts has a ticket"},
		{"keytab", "FILE", setPath(o.Keytab), "keytab with which root gets Kerberos tickets (/etc/krb5.keytab)"},
		{"xprtsec", o.Xprtsec.Type(), o.Xprtsec.Set, "protection of connections: none (the default), tls (encrypted; the server presents a certificate), mtls (this host presents one too); on RDMA, only nfsrdmad with --rdma-tls supports tls and mtls"},
		{"tls-cert", "FILE", setPath(o.TLSCert), "certificate of this host, for mtls"},
		{"tls-key", "FILE", setPath(o.TLSKey), "its key"},
		{"tls-ca", "FILE", setPath(o.TLSCA), "certificate authorities for the server's certificate (this host's)"},
		{"tls-crl", "FILE", setPath(o.TLSCRL), "their revocation lists"},
		{"alpn", o.ALPN.Type(), o.ALPN.Set, "any (the default); or strict, which rejects servers without ALPN \"sunrpc\", such as Linux's, and is always in effect on RDMA"},
		{"clear-mount", "", setTo(o.ClearMOUNT, true), "with xprtsec= and sec=, send MOUNT calls unencrypted if the server's MOUNT service has no TLS, as Linux's mountd; attackers on the path can then see, and change, which of the server's directories is mounted"},
		{"tls-kernel", o.TLSKernel.Type(), o.TLSKernel.Set, "auto lets the kernel encrypt, if it has the tls module (off)"},
		{"udp", "", reject(otherTransport), ""},
		{"v2", "", reject(otherVersion), ""},
		{"v4", optionalValue, reject(otherVersion), ""},
		{"v4.0", "", reject(otherVersion), ""},
		{"v4.1", "", reject(otherVersion), ""},
		{"v4.2", "", reject(otherVersion), ""},
		{"minorversion", optionalValue, reject(otherVersion), ""},
		{"krb5", optionalValue, reject("write sec=krb5, sec=krb5i or sec=krb5p"), ""},
		{"remount", "", reject("a mount cannot be changed: unmount it, and mount it again"), "rejected, with an error that names the remedy"},
	}, ignoredOptions(
		"defaults", "auto", "noauto", "nouser", "nofail", "_netdev", "comment",
		"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime",
		"intr", "nointr", "addr", "clientaddr", "cto", "nocto", "acl", "noacl", "rdirplus", "nordirplus",
		"sharecache", "nosharecache", "resvport", "noresvport", "nofsc", "namlen", "nomand", "silent", "loud",
		"dirsync", "iversion", "noiversion",
	)...)
}
