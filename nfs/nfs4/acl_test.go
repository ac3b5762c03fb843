package nfs4

import (
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
	"github.com/stretchr/testify/assert"
)

// TestACLNumbers compares the ACE constants with those of the oracle, whose
// source is RFC 7863 (R8881-6.2.1-3).
func TestACLNumbers(t *testing.T) {
	for ours, oracle := range map[uint32]uint32{
		ACEAllow: nfsv4.ACE4_ACCESS_ALLOWED_ACE_TYPE, ACEDeny: nfsv4.ACE4_ACCESS_DENIED_ACE_TYPE,
		ACEAudit: nfsv4.ACE4_SYSTEM_AUDIT_ACE_TYPE, ACEAlarm: nfsv4.ACE4_SYSTEM_ALARM_ACE_TYPE,
	} {
		assert.Equal(t, oracle, ours)
	}
	for ours, oracle := range map[uint32]uint32{
		ACLSupportAllow: nfsv4.ACL4_SUPPORT_ALLOW_ACL, ACLSupportDeny: nfsv4.ACL4_SUPPORT_DENY_ACL,
		ACLSupportAudit: nfsv4.ACL4_SUPPORT_AUDIT_ACL, ACLSupportAlarm: nfsv4.ACL4_SUPPORT_ALARM_ACL,
	} {
		assert.Equal(t, oracle, ours)
	}
	for ours, oracle := range map[uint32]uint32{
		ACEFileInherit: nfsv4.ACE4_FILE_INHERIT_ACE, ACEDirectoryInherit: nfsv4.ACE4_DIRECTORY_INHERIT_ACE,
		ACENoPropagateInherit: nfsv4.ACE4_NO_PROPAGATE_INHERIT_ACE, ACEInheritOnly: nfsv4.ACE4_INHERIT_ONLY_ACE,
		ACESuccessfulAccess: nfsv4.ACE4_SUCCESSFUL_ACCESS_ACE_FLAG, ACEFailedAccess: nfsv4.ACE4_FAILED_ACCESS_ACE_FLAG,
		ACEIdentifierGroup: nfsv4.ACE4_IDENTIFIER_GROUP, ACEInherited: nfsv4.ACE4_INHERITED_ACE,
	} {
		assert.Equal(t, oracle, ours)
	}
	for ours, oracle := range map[uint32]uint32{
		ACEReadData: nfsv4.ACE4_READ_DATA, ACEWriteData: nfsv4.ACE4_WRITE_DATA, ACEAppendData: nfsv4.ACE4_APPEND_DATA,
		ACEReadNamedAttrs: nfsv4.ACE4_READ_NAMED_ATTRS, ACEWriteNamedAttrs: nfsv4.ACE4_WRITE_NAMED_ATTRS,
		ACEExecute: nfsv4.ACE4_EXECUTE, ACEDeleteChild: nfsv4.ACE4_DELETE_CHILD,
		ACEReadAttributes: nfsv4.ACE4_READ_ATTRIBUTES, ACEWriteAttributes: nfsv4.ACE4_WRITE_ATTRIBUTES,
		ACEWriteRetention: nfsv4.ACE4_WRITE_RETENTION, ACEWriteRetentionHold: nfsv4.ACE4_WRITE_RETENTION_HOLD,
		ACEDelete: nfsv4.ACE4_DELETE, ACEReadACL: nfsv4.ACE4_READ_ACL, ACEWriteACL: nfsv4.ACE4_WRITE_ACL,
		ACEWriteOwner: nfsv4.ACE4_WRITE_OWNER, ACESynchronize: nfsv4.ACE4_SYNCHRONIZE,
	} {
		assert.Equal(t, oracle, ours)
	}
}

// TestACLLen checks the length that is known before an ACL is written.
func TestACLLen(t *testing.T) {
	for _, a := range []ACL{nil, {{Who: []byte(WhoOwner)}}, {{Who: []byte("1000")}, {}, {Who: []byte(WhoEveryone)}}} {
		assert.Len(t, a.AppendTo(nil), a.Len())
	}
}
