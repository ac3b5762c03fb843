package nfs4

import "strconv"

// An AttrID is an attribute number (RFC 8881, Section 5; RFC 7862, Section
// 12.2; RFC 8275; RFC 8276; RFC 9754). It is below 96.
type AttrID uint8

// The attributes.
const (
	AttrSupportedAttrs    AttrID = 0
	AttrType              AttrID = 1
	AttrFHExpireType      AttrID = 2
	AttrChange            AttrID = 3
	AttrSize              AttrID = 4
	AttrLinkSupport       AttrID = 5
	AttrSymlinkSupport    AttrID = 6
	AttrNamedAttr         AttrID = 7
	AttrFSID              AttrID = 8
	AttrUniqueHandles     AttrID = 9
	AttrLeaseTime         AttrID = 10
	AttrRdattrError       AttrID = 11
	AttrACL               AttrID = 12
	AttrACLSupport        AttrID = 13
	AttrArchive           AttrID = 14
	AttrCanSetTime        AttrID = 15
	AttrCaseInsensitive   AttrID = 16
	AttrCasePreserving    AttrID = 17
	AttrChownRestricted   AttrID = 18
	AttrFileHandle        AttrID = 19
	AttrFileID            AttrID = 20
	AttrFilesAvail        AttrID = 21
	AttrFilesFree         AttrID = 22
	AttrFilesTotal        AttrID = 23
	AttrFSLocations       AttrID = 24
	AttrHidden            AttrID = 25
	AttrHomogeneous       AttrID = 26
	AttrMaxFileSize       AttrID = 27
	AttrMaxLink           AttrID = 28
	AttrMaxName           AttrID = 29
	AttrMaxRead           AttrID = 30
	AttrMaxWrite          AttrID = 31
	AttrMIMEType          AttrID = 32
	AttrMode              AttrID = 33
	AttrNoTrunc           AttrID = 34
	AttrNumLinks          AttrID = 35
	AttrOwner             AttrID = 36
	AttrOwnerGroup        AttrID = 37
	AttrQuotaAvailHard    AttrID = 38
	AttrQuotaAvailSoft    AttrID = 39
	AttrQuotaUsed         AttrID = 40
	AttrRawDev            AttrID = 41
	AttrSpaceAvail        AttrID = 42
	AttrSpaceFree         AttrID = 43
	AttrSpaceTotal        AttrID = 44
	AttrSpaceUsed         AttrID = 45
	AttrSystem            AttrID = 46
	AttrTimeAccess        AttrID = 47
	AttrTimeAccessSet     AttrID = 48
	AttrTimeBackup        AttrID = 49
	AttrTimeCreate        AttrID = 50
	AttrTimeDelta         AttrID = 51
	AttrTimeMetadata      AttrID = 52
	AttrTimeModify        AttrID = 53
	AttrTimeModifySet     AttrID = 54
	AttrMountedOnFileID   AttrID = 55
	AttrDirNotifDelay     AttrID = 56
	AttrDirentNotifDelay  AttrID = 57
	AttrDACL              AttrID = 58
	AttrSACL              AttrID = 59
	AttrChangePolicy      AttrID = 60
	AttrFSStatus          AttrID = 61
	AttrFSLayoutTypes     AttrID = 62
	AttrLayoutHint        AttrID = 63
	AttrLayoutTypes       AttrID = 64
	AttrLayoutBlkSize     AttrID = 65
	AttrLayoutAlignment   AttrID = 66
	AttrFSLocationsInfo   AttrID = 67
	AttrMDSThreshold      AttrID = 68
	AttrRetentionGet      AttrID = 69
	AttrRetentionSet      AttrID = 70
	AttrRetentevtGet      AttrID = 71
	AttrRetentevtSet      AttrID = 72
	AttrRetentionHold     AttrID = 73
	AttrModeSetMasked     AttrID = 74
	AttrSuppattrExclCreat AttrID = 75
	AttrFSCharsetCap      AttrID = 76
	AttrCloneBlkSize      AttrID = 77
	AttrSpaceFreed        AttrID = 78
	AttrChangeAttrType    AttrID = 79
	AttrSecLabel          AttrID = 80
	AttrModeUmask         AttrID = 81
	AttrXattrSupport      AttrID = 82
	AttrOffline           AttrID = 83
	AttrTimeDelegAccess   AttrID = 84
	AttrTimeDelegModify   AttrID = 85
	AttrOpenArguments     AttrID = 86
)

// numAttr is the last attribute's number plus one.
const numAttr = AttrOpenArguments + 1

// String returns the standard's name for a, or its number.
func (a AttrID) String() string {
	if a < numAttr {
		return attrNames[a]
	}
	return "fattr4(" + strconv.Itoa(int(a)) + ")"
}

var attrNames = [numAttr]string{
	AttrSupportedAttrs:    "supported_attrs",
	AttrType:              "type",
	AttrFHExpireType:      "fh_expire_type",
	AttrChange:            "change",
	AttrSize:              "size",
	AttrLinkSupport:       "link_support",
	AttrSymlinkSupport:    "symlink_support",
	AttrNamedAttr:         "named_attr",
	AttrFSID:              "fsid",
	AttrUniqueHandles:     "unique_handles",
	AttrLeaseTime:         "lease_time",
	AttrRdattrError:       "rdattr_error",
	AttrACL:               "acl",
	AttrACLSupport:        "aclsupport",
	AttrArchive:           "archive",
	AttrCanSetTime:        "cansettime",
	AttrCaseInsensitive:   "case_insensitive",
	AttrCasePreserving:    "case_preserving",
	AttrChownRestricted:   "chown_restricted",
	AttrFileHandle:        "filehandle",
	AttrFileID:            "fileid",
	AttrFilesAvail:        "files_avail",
	AttrFilesFree:         "files_free",
	AttrFilesTotal:        "files_total",
	AttrFSLocations:       "fs_locations",
	AttrHidden:            "hidden",
	AttrHomogeneous:       "homogeneous",
	AttrMaxFileSize:       "maxfilesize",
	AttrMaxLink:           "maxlink",
	AttrMaxName:           "maxname",
	AttrMaxRead:           "maxread",
	AttrMaxWrite:          "maxwrite",
	AttrMIMEType:          "mimetype",
	AttrMode:              "mode",
	AttrNoTrunc:           "no_trunc",
	AttrNumLinks:          "numlinks",
	AttrOwner:             "owner",
	AttrOwnerGroup:        "owner_group",
	AttrQuotaAvailHard:    "quota_avail_hard",
	AttrQuotaAvailSoft:    "quota_avail_soft",
	AttrQuotaUsed:         "quota_used",
	AttrRawDev:            "rawdev",
	AttrSpaceAvail:        "space_avail",
	AttrSpaceFree:         "space_free",
	AttrSpaceTotal:        "space_total",
	AttrSpaceUsed:         "space_used",
	AttrSystem:            "system",
	AttrTimeAccess:        "time_access",
	AttrTimeAccessSet:     "time_access_set",
	AttrTimeBackup:        "time_backup",
	AttrTimeCreate:        "time_create",
	AttrTimeDelta:         "time_delta",
	AttrTimeMetadata:      "time_metadata",
	AttrTimeModify:        "time_modify",
	AttrTimeModifySet:     "time_modify_set",
	AttrMountedOnFileID:   "mounted_on_fileid",
	AttrDirNotifDelay:     "dir_notif_delay",
	AttrDirentNotifDelay:  "dirent_notif_delay",
	AttrDACL:              "dacl",
	AttrSACL:              "sacl",
	AttrChangePolicy:      "change_policy",
	AttrFSStatus:          "fs_status",
	AttrFSLayoutTypes:     "fs_layout_types",
	AttrLayoutHint:        "layout_hint",
	AttrLayoutTypes:       "layout_types",
	AttrLayoutBlkSize:     "layout_blksize",
	AttrLayoutAlignment:   "layout_alignment",
	AttrFSLocationsInfo:   "fs_locations_info",
	AttrMDSThreshold:      "mdsthreshold",
	AttrRetentionGet:      "retention_get",
	AttrRetentionSet:      "retention_set",
	AttrRetentevtGet:      "retentevt_get",
	AttrRetentevtSet:      "retentevt_set",
	AttrRetentionHold:     "retention_hold",
	AttrModeSetMasked:     "mode_set_masked",
	AttrSuppattrExclCreat: "suppattr_exclcreat",
	AttrFSCharsetCap:      "fs_charset_cap",
	AttrCloneBlkSize:      "clone_blksize",
	AttrSpaceFreed:        "space_freed",
	AttrChangeAttrType:    "change_attr_type",
	AttrSecLabel:          "sec_label",
	AttrModeUmask:         "mode_umask",
	AttrXattrSupport:      "xattr_support",
	AttrOffline:           "offline",
	AttrTimeDelegAccess:   "time_deleg_access",
	AttrTimeDelegModify:   "time_deleg_modify",
	AttrOpenArguments:     "open_arguments",
}
