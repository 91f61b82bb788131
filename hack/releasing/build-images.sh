#!/bin/sh
# Builds the images of this release as OCI image layouts, in images/ next to this file; `hack/publish` pushes them. Usage, in a checkout
# at the tag of the release:
#   sh dist/build-images.sh
# Uses buildah or docker buildx. PLATFORMS names other platforms; a foreign processor needs QEMU registered with binfmt.
set -eu
platforms=${PLATFORMS:-linux/amd64,linux/arm64}
images=$(cd "$(dirname "$0")" && pwd)/images
mkdir -p "$images"

# build NAME:TAG DOCKERFILE [ARGUMENT…]
build() {
  image=$1 file=$2
  shift 2
  layout=$images/$(echo "$image" | tr : _)
  rm -rf "$layout"
  if command -v buildah >/dev/null; then
    buildah manifest rm "$image" >/dev/null 2>&1 || true
    buildah build ${BUILD_ARGUMENTS:-} --platform "$platforms" --manifest "$image" --timestamp @EPOCH@ -f "$file" "$@" .
    buildah manifest push --all "$image" "oci:$layout"
    buildah manifest rm "$image" >/dev/null
  else
    SOURCE_DATE_EPOCH=@EPOCH@ docker buildx build ${BUILD_ARGUMENTS:-} --platform "$platforms" -f "$file" "$@" \
      --output "type=oci,tar=false,rewrite-timestamp=true,dest=$layout" .
  fi
  echo "$layout"
}

build atherops-agent:@TAG@ Dockerfile.agent
build atherops-backend:@TAG@ Dockerfile.backend
build atherops-backend:@TAG@-lean Dockerfile.backend --target lean
