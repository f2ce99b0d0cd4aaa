# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# To be sourced: where packages of other Debian releases come from. The caller has die().

# shellcheck disable=SC2016 # apt's own variable
mirror_of_indexes() {
	apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' | sed -n 1p
}

# The mirror that this machine's own apt uses for Debian.
mirror() {
	local uri
	uri=$(mirror_of_indexes)
	if [ -z "$uri" ]; then
		apt-get -qq update >/dev/null
		uri=$(mirror_of_indexes)
	fi
	[ -n "$uri" ] || die "apt knows no Debian mirror"
	echo "$uri"
}
